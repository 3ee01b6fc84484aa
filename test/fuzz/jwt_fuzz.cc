// Any bytes as a token, as JSON and as a JWK set: no unsigned token is accepted, everything stays within its bounds,
// and JSON that is written again parses to the same values.
//
// Input: one byte for the kind, then the bytes.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "proxy/auth/jwt.h"
#include "proxy/auth/jwt_authenticator.h"
#include "sluice/internal/check.h"

namespace sluice {
namespace {

// The RFC's key of ES256 (RFC 7515 appendix A.3), whose private half signs nothing here.
const JwtKeys& keys() {
  static const JwtKeys keys =
      JwtKeys::parse(
          R"({"keys":[{"kty":"EC","crv":"P-256","x":"f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU","y":"x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0"}]})")
          .value();
  return keys;
}

constexpr std::string_view kSignedToken =
    "eyJhbGciOiJFUzI1NiJ9."
    "eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cnVlfQ."
    "DtEhU3ljbEg8L38VWAfUAqOyKAM6-Xx-F4GawxaepmXFCgfTjDxw5djxLa8ISlSApmWQxfKTUJqPP3-Kg6NU1Q";

void check_token(std::string_view token) {
  static JwtReader reader;
  const config::JwtAuth rules;
  const JwtFault fault = reader.read(token, keys(), rules, 1'300'000'000);
  SLUICE_CHECK((fault == JwtFault::kNone) == (token == kSignedToken));
}

// As JSON again, without whitespace.
void write(const JsonText& json, const JsonValue& value, std::string& out) {
  const auto write_text = [&](std::string_view text) {
    out += '"';
    for (const char c : text) {
      if (c == '"' || c == '\\') out += '\\';
      if (static_cast<unsigned char>(c) < ' ') {
        constexpr std::string_view kDigits = "0123456789abcdef";
        out += "\\u00";
        out += kDigits[static_cast<size_t>(c) >> 4];
        out += kDigits[static_cast<size_t>(c) & 15];
      } else {
        out += c;
      }
    }
    out += '"';
  };
  switch (value.kind) {
    case JsonValue::Kind::kNull:
      out += "null";
      break;
    case JsonValue::Kind::kTrue:
      out += "true";
      break;
    case JsonValue::Kind::kFalse:
      out += "false";
      break;
    case JsonValue::Kind::kNumber:
      out += value.text;
      break;
    case JsonValue::Kind::kString:
      write_text(value.text);
      break;
    case JsonValue::Kind::kArray:
    case JsonValue::Kind::kObject: {
      const bool object = value.kind == JsonValue::Kind::kObject;
      out += object ? '{' : '[';
      for (const JsonValue* each = json.first(value); each; each = json.next(*each)) {
        if (each != json.first(value)) out += ',';
        if (object) {
          write_text(each->name);
          out += ':';
        }
        write(json, *each, out);
      }
      out += object ? '}' : ']';
      break;
    }
  }
}

void check_json(std::string_view text) {
  JsonText json, again;
  if (!json.read(text)) {
    SLUICE_CHECK(json.error() != nullptr && json.error_offset() <= text.size());
    return;
  }
  std::string written, rewritten;
  write(json, json.root(), written);
  if (written.size() > JsonText::kMaxBytes) return;
  SLUICE_CHECK(again.read(written));
  write(again, again.root(), rewritten);
  SLUICE_CHECK(written == rewritten);
  std::string claim;
  claim_text(json, &json.root(), claim);
  for (const char c : claim) SLUICE_CHECK(static_cast<unsigned char>(c) >= ' ' && c != '\x7f');
}

}  // namespace
}  // namespace sluice

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string text(reinterpret_cast<const char*>(data + 1), size - 1);
  switch (data[0] % 3) {
    case 0:
      sluice::check_token(text);
      break;
    case 1:
      sluice::check_json(text);
      break;
    default: {
      const absl::StatusOr<sluice::JwtKeys> keys = sluice::JwtKeys::parse(text);
      SLUICE_CHECK(!keys.ok() || !keys->keys().empty());
    }
  }
  return 0;
}
