// Formats a line of the access log as a JSON object (RFC 8259). docs/guides/access-log.md describes its members.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "proxy/access_log/access_line.h"
#include "proxy/log/line_writer.h"

namespace sluice {

namespace {

// An upper bound for all keys, quotes, colons and commas.
constexpr size_t kFrame = 500;
static_assert(kFrame + LineLimits::kTime + LineLimits::kPath + LineLimits::kUserAgent + LineLimits::kAuthority +
                  10 * LineLimits::kName + 5 * LineLimits::kWord + 9 * LineLimits::kNumber <=
              kMaxLogLineBytes);

// A key with what stands around it, as one text of a constant size, which the compiler copies by a few moves.
template <size_t kSize>
struct Key {
  consteval Key(const char (&name)[kSize]) { std::copy_n(name, kSize, text); }
  char text[kSize];
};

template <Key kKey, size_t kAfter>
consteval auto member(const char (&after)[kAfter]) {
  constexpr size_t kName = sizeof kKey.text - 1;
  std::array<char, 4 + kName + kAfter - 1> text{};
  char* at = text.data();
  *at++ = ',', *at++ = '"';
  at = std::copy_n(kKey.text, kName, at);
  *at++ = '"', *at++ = ':';
  std::copy_n(after, kAfter - 1, at);
  return text;
}

// The members behind the first one.
class JsonMembers {
 public:
  explicit JsonMembers(LineWriter& line) : line_(line) {}

  // An unknown value is written as null.
  template <Key kKey>
  [[gnu::always_inline]] void text(std::string_view value, size_t max) {
    if (value.empty()) return null<kKey>();
    line_.constant<member<kKey>("\"")>();
    line_.json_text(value, max);
    line_.literal("\"");
  }
  template <Key kKey>
  [[gnu::always_inline]] void number(uint64_t value) {
    line_.constant<member<kKey>("")>();
    line_.number(value);
  }
  template <Key kKey>
  [[gnu::always_inline]] void maybe_number(std::optional<uint64_t> value) {
    value ? number<kKey>(*value) : null<kKey>();
  }

 private:
  template <Key kKey>
  [[gnu::always_inline]] void null() {
    line_.constant<member<kKey>("null")>();
  }

  LineWriter& line_;
};

}  // namespace

size_t format_json_line(const AccessRecord& record, std::span<char> out) {
  const bool is_request = record.kind == AccessRecord::Kind::kRequest;
  LineWriter line(out.data());
  line.literal("{\"time\":\"");
  line.time(record.time_ms);
  line.literal("\"");
  JsonMembers members(line);
  members.text<"client">(record.client, LineLimits::kName);
  members.maybe_number<"client_port">(record.client_port != 0 ? std::optional<uint64_t>(record.client_port)
                                                              : std::nullopt);
  members.text<"listener">(record.listener, LineLimits::kName);
  members.text<"protocol">(record.protocol, LineLimits::kWord);
  if (record.tls.empty() && record.cipher.empty() && record.server_name.empty()) {
    line.literal(R"(,"tls_version":null,"tls_cipher":null,"tls_server_name":null)");
  } else {
    members.text<"tls_version">(record.tls, LineLimits::kWord);
    members.text<"tls_cipher">(record.cipher, LineLimits::kName);
    members.text<"tls_server_name">(record.server_name, LineLimits::kName);
  }
  if (is_request) {
    members.text<"method">(record.method, LineLimits::kWord);
    members.text<"authority">(record.authority, LineLimits::kAuthority);
    members.text<"path">(record.path, LineLimits::kPath);
    members.number<"status">(record.status);
    members.maybe_number<"grpc_status">(record.grpc_status);
  }
  members.text<"reason">(record.reason, LineLimits::kWord);
  if (is_request) members.text<"detail">(record.detail, LineLimits::kName);
  members.number<"bytes_in">(record.request_bytes);
  members.number<"bytes_out">(record.response_bytes);
  members.number<"bytes_pinned">(record.pinned_bytes);
  members.number<"duration_us">(record.duration_us);
  is_request ? members.maybe_number<"upstream_us">(record.upstream_us)
             : members.maybe_number<"connect_us">(record.upstream_us);
  members.text<"route">(record.route, LineLimits::kName);
  members.text<"upstream">(record.upstream, LineLimits::kName);
  members.text<"endpoint">(record.endpoint, LineLimits::kName);
  members.number<"attempts">(record.attempts);
  if (is_request) {
    members.text<"user">(record.user, LineLimits::kName);
    members.text<"request_id">(record.request_id, LineLimits::kName);
    members.text<"trace_id">(record.trace_id, LineLimits::kName);
    members.text<"user_agent">(record.user_agent, LineLimits::kUserAgent);
  }
  line.literal("}\n");
  return static_cast<size_t>(line.end() - out.data());
}

}  // namespace sluice
