// Formats a line of the access log as a JSON object (RFC 8259). docs/guides/access-log.md describes its members.

#include <optional>

#include "proxy/access_log/access_line.h"
#include "proxy/log/line_writer.h"

namespace sluice {

namespace {

// An upper bound for all keys, quotes, colons and commas.
constexpr size_t kFrame = 500;
static_assert(kFrame + LineLimits::kTime + LineLimits::kPath + LineLimits::kUserAgent + LineLimits::kAuthority +
                  10 * LineLimits::kName + 5 * LineLimits::kWord + 9 * LineLimits::kNumber <=
              kMaxLogLineBytes);

class JsonObject {
 public:
  explicit JsonObject(LineWriter& line) : line_(line) {}

  // An unknown value is written as null.
  void text(std::string_view key, std::string_view value, size_t max) {
    this->key(key);
    if (value.empty()) return line_.raw("null");
    line_.raw("\"");
    line_.json_text(value, max);
    line_.raw("\"");
  }
  void number(std::string_view key, std::optional<uint64_t> value) {
    this->key(key);
    value ? line_.number(*value) : line_.raw("null");
  }
  void key(std::string_view key) {
    line_.raw(first_ ? "{\"" : ",\"");
    first_ = false;
    line_.raw(key);
    line_.raw("\":");
  }

 private:
  LineWriter& line_;
  bool first_ = true;
};

}  // namespace

size_t format_json_line(const AccessRecord& record, std::span<char> out) {
  const bool is_request = record.kind == AccessRecord::Kind::kRequest;
  LineWriter line(out.data());
  JsonObject object(line);
  object.key("time");
  line.raw("\"");
  line.time(record.time_ms);
  line.raw("\"");
  object.text("client", record.client, LineLimits::kName);
  object.number("client_port", record.client_port != 0 ? std::optional<uint64_t>(record.client_port) : std::nullopt);
  object.text("listener", record.listener, LineLimits::kName);
  object.text("protocol", record.protocol, LineLimits::kWord);
  object.text("tls_version", record.tls, LineLimits::kWord);
  object.text("tls_cipher", record.cipher, LineLimits::kName);
  object.text("tls_server_name", record.server_name, LineLimits::kName);
  if (is_request) {
    object.text("method", record.method, LineLimits::kWord);
    object.text("authority", record.authority, LineLimits::kAuthority);
    object.text("path", record.path, LineLimits::kPath);
    object.number("status", record.status);
    object.number("grpc_status", record.grpc_status);
  }
  object.text("reason", record.reason, LineLimits::kWord);
  if (is_request) object.text("detail", record.detail, LineLimits::kName);
  object.number("bytes_in", record.request_bytes);
  object.number("bytes_out", record.response_bytes);
  object.number("bytes_pinned", record.pinned_bytes);
  object.number("duration_us", record.duration_us);
  object.number(is_request ? "upstream_us" : "connect_us", record.upstream_us);
  object.text("route", record.route, LineLimits::kName);
  object.text("upstream", record.upstream, LineLimits::kName);
  object.text("endpoint", record.endpoint, LineLimits::kName);
  object.number("attempts", record.attempts);
  if (is_request) {
    object.text("user", record.user, LineLimits::kName);
    object.text("request_id", record.request_id, LineLimits::kName);
    object.text("trace_id", record.trace_id, LineLimits::kWord);
    object.text("user_agent", record.user_agent, LineLimits::kUserAgent);
  }
  line.raw("}\n");
  return static_cast<size_t>(line.end() - out.data());
}

}  // namespace sluice
