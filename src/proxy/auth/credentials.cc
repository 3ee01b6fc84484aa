#include "proxy/auth/credentials.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "proxy/common/base64.h"

namespace sluice {
namespace {

// Returns the text after the scheme and its spaces. Schemes are case-insensitive (RFC 9110 section 11.1).
std::optional<std::string_view> after_scheme(std::string_view scheme, std::string_view value) {
  if (scheme.empty()) return value;
  if (value.size() <= scheme.size() || value[scheme.size()] != ' ' || !absl::StartsWithIgnoreCase(value, scheme)) {
    return std::nullopt;
  }
  value.remove_prefix(std::min(value.find_first_not_of(' ', scheme.size()), value.size()));
  return value;
}

// Returns the value of a field that occurs exactly once.
std::optional<std::string_view> only_value(const Fields& fields, std::string_view name) {
  const size_t index = fields.find(name);
  if (index == Fields::npos || fields.find(name, index + 1) != Fields::npos) return std::nullopt;
  return fields[index].value;
}

// RFC 6265 section 4.2.1: pairs separated by "; ". Browsers may send several fields over HTTP/2.
std::optional<std::string_view> find_cookie(const Fields& fields, std::string_view name) {
  for (size_t i = fields.find("cookie"); i != Fields::npos; i = fields.find("cookie", i + 1)) {
    for (std::string_view rest = fields[i].value; !rest.empty();) {
      std::string_view pair = rest.substr(0, rest.find(';'));
      rest.remove_prefix(std::min(pair.size() + 1, rest.size()));
      pair.remove_prefix(std::min(pair.find_first_not_of(' '), pair.size()));
      if (pair.size() > name.size() && pair.starts_with(name) && pair[name.size()] == '=') {
        return pair.substr(name.size() + 1);
      }
    }
  }
  return std::nullopt;
}

}  // namespace

std::optional<std::string_view> find_token(const config::JwtAuth& rules, const Fields& fields) {
  if (const auto value = only_value(fields, rules.header.text())) {
    if (const auto token = after_scheme(rules.scheme, *value)) return token;
  }
  return rules.cookie.empty() ? std::nullopt : find_cookie(fields, rules.cookie);
}

std::optional<NameAndPassword> find_password(const Fields& fields, std::span<unsigned char> scratch) {
  const auto value = only_value(fields, "authorization");
  const auto encoded = value ? after_scheme("Basic", *value) : std::nullopt;
  if (!encoded || base64_room(encoded->size()) > scratch.size()) return std::nullopt;
  const auto bytes = decode_base64(Base64::kPadded, *encoded, scratch);
  if (!bytes) return std::nullopt;
  const std::string_view text(reinterpret_cast<const char*>(bytes->data()), bytes->size());
  const size_t colon = text.find(':');
  if (colon == std::string_view::npos) return std::nullopt;
  return NameAndPassword{text.substr(0, colon), text.substr(colon + 1)};
}

}  // namespace sluice
