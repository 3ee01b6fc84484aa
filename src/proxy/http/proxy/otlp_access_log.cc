#include "proxy/http/proxy/otlp_access_log.h"

#include <time.h>

#include <array>
#include <charconv>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>

#include "absl/strings/str_cat.h"

namespace sluice {

namespace {

// The most that wait while a request is under way, and that a request has: what 100,000 requests a second log while the
// collector responds within 40 ms. Collectors take requests of 20 MiB.
constexpr uint32_t kMostLogs = 4096;
constexpr size_t kMostLogBytes = size_t{2} << 20;

OtlpStream logs_of(const config::AccessLog& config, std::string_view listener, ListenerCounters& counters) {
  const config::OtlpLogs otlp = config.otlp.value_or(config::OtlpLogs());
  return {.subject = absl::StrCat("listener \"", listener, "\": access_log"),
          .records = "log records",
          .path = otlp.path,
          .service_name = otlp.service_name,
          .most_records = kMostLogs,
          .most_bytes = kMostLogBytes,
          .exported = counters.log_records_exported,
          .lost = counters.log_records_dropped,
          .dropped = counters.log_records_dropped,
          .failures = &counters.log_requests_failed};
}

uint64_t wall_clock_ns() {
  timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(now.tv_nsec);
}

OtlpAttribute number_if(std::string_view key, std::optional<uint64_t> number) {
  return number ? OtlpAttribute::of_number(key, static_cast<int64_t>(*number)) : OtlpAttribute::of(key, {});
}

OtlpAttribute positive(std::string_view key, uint64_t number) {
  return number_if(key, number != 0 ? std::optional(number) : std::nullopt);
}

// Why it failed: as in spans, the reason or the status.
std::string_view failure_of(const AccessRecord& record, std::span<char, 8> room) {
  if (record.reason != "ok" && record.kind == AccessRecord::Kind::kRequest) return record.reason;
  if (record.status < 500) return {};
  const auto written = std::to_chars(room.data(), room.data() + room.size(), record.status);
  return {room.data(), static_cast<size_t>(written.ptr - room.data())};
}

std::string_view path_of(const AccessRecord& record) {
  return record.facts ? record.facts->path : record.path.substr(0, record.path.find('?'));
}

}  // namespace

OtlpAccessLog::OtlpAccessLog(HttpWorker& worker, std::shared_ptr<HttpUpstream> to, const config::AccessLog& config,
                             std::shared_ptr<ListenerCounters> counters, std::string_view listener)
    : to_(std::move(to)),
      counters_(std::move(counters)),
      exporter_(worker, *to_, logs_of(config, listener, *counters_)) {}

// The attributes are those of the semantic conventions for HTTP servers and TLS, version 1; what these lack has names
// of our own. The query is only in the line.
void OtlpAccessLog::add(const AccessRecord& record, std::string_view line) {
  const bool is_request = record.kind == AccessRecord::Kind::kRequest;
  const RequestAttributes* const facts = record.facts;
  std::array<char, 8> room;
  const std::string_view tls_version = record.tls.starts_with("TLSv") ? record.tls.substr(4) : std::string_view();
  const std::array attributes{
      OtlpAttribute::of("http.request.method", record.method),
      number_if("http.response.status_code",
                record.status != 0 ? std::optional<uint64_t>(record.status) : std::nullopt),
      OtlpAttribute::of("url.scheme", facts ? facts->scheme : std::string_view()),
      OtlpAttribute::of("url.path", is_request ? path_of(record) : std::string_view()),
      OtlpAttribute::of("server.address", facts ? facts->host : std::string_view()),
      OtlpAttribute::of("client.address", record.client),
      positive("client.port", record.client_port),
      OtlpAttribute::of("network.transport", "tcp"),
      OtlpAttribute::of("network.protocol.name", is_request ? "http" : ""),
      OtlpAttribute::of("network.protocol.version", !is_request                   ? ""
                                                    : record.protocol == "HTTP/2" ? "2"
                                                                                  : "1.1"),
      OtlpAttribute::of("tls.protocol.name", record.tls.empty()    ? ""
                                             : tls_version.empty() ? record.tls
                                                                   : "tls"),
      OtlpAttribute::of("tls.protocol.version", tls_version),
      OtlpAttribute::of("tls.cipher", record.cipher),
      OtlpAttribute::of("tls.client.server_name", record.server_name),
      OtlpAttribute::of("user_agent.original", record.user_agent),
      OtlpAttribute::of("user.name", record.user),
      OtlpAttribute::of("error.type", failure_of(record, room)),
      number_if("rpc.grpc.status_code", record.grpc_status),
      OtlpAttribute::of_number(is_request ? "http.request.body.size" : "sluice.bytes_in",
                               static_cast<int64_t>(record.request_bytes)),
      OtlpAttribute::of_number(is_request ? "http.response.body.size" : "sluice.bytes_out",
                               static_cast<int64_t>(record.response_bytes)),
      OtlpAttribute::of_number("sluice.bytes_pinned", static_cast<int64_t>(record.pinned_bytes)),
      OtlpAttribute::of_number("sluice.duration_us", static_cast<int64_t>(record.duration_us)),
      number_if(is_request ? "sluice.upstream_us" : "sluice.connect_us", record.upstream_us),
      OtlpAttribute::of("sluice.reason", record.reason),
      OtlpAttribute::of("sluice.detail", record.detail),
      OtlpAttribute::of("sluice.listener", record.listener),
      OtlpAttribute::of("sluice.route", record.route),
      OtlpAttribute::of("sluice.upstream", record.upstream),
      OtlpAttribute::of("sluice.endpoint", record.endpoint),
      OtlpAttribute::of_number("sluice.attempts", record.attempts),
      OtlpAttribute::of("sluice.request_id", record.request_id),
  };
  exporter_.add(OtlpLog{.time_ns = static_cast<uint64_t>(record.time_ms) * 1'000'000,
                        .observed_ns = wall_clock_ns(),
                        .severity = record.status >= 500 ? OtlpLog::Severity::kError : OtlpLog::Severity::kInfo,
                        .body = line,
                        .attributes = attributes,
                        .trace_id = record.trace_id,
                        .span_id = record.span_id});
}

}  // namespace sluice
