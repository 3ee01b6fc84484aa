#include "proxy/http/proxy/request_trace.h"

#include <time.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstddef>
#include <utility>

#include "absl/strings/numbers.h"
#include "proxy/http/proxy/http_listener.h"
#include "proxy/http/proxy/http_worker.h"
#include "proxy/http/proxy/otlp_exporter.h"
#include "proxy/http/proxy/request_context.h"
#include "proxy/router/http_router.h"

namespace sluice {

namespace {

constexpr size_t kMaxName = 128;

uint64_t realtime_ns() {
  timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(now.tv_nsec);
}

template <size_t N>
std::string_view digits(const std::array<char, N>& chars) {
  return {chars.data(), chars.size()};
}

// The name of a span: two words, as the semantic conventions for HTTP have it.
std::string_view name_of(std::string_view method, std::string_view target, std::array<char, kMaxName>& room) {
  const auto put = [&](size_t at, std::string_view text) {
    const size_t size = std::min(text.size(), room.size() - at);
    std::copy_n(text.data(), size, room.data() + at);
    return at + size;
  };
  size_t size = put(0, method);
  if (!target.empty()) size = put(put(size, " "), target);
  return {room.data(), size};
}

// The attribute error.type of a response.
std::string_view error_type(uint16_t status, uint16_t least, std::string_view error, std::array<char, 8>& room) {
  if (!error.empty() || status < least) return error;
  const auto written = std::to_chars(room.data(), room.data() + room.size(), status);
  return {room.data(), static_cast<size_t>(written.ptr - room.data())};
}

// "10.0.0.1:8080" in two parts; the second is empty for a Unix socket.
std::pair<std::string_view, std::string_view> split_address(std::string_view text) {
  const size_t colon = text.rfind(':');
  if (colon == std::string_view::npos || text.starts_with("unix:")) return {text, {}};
  return {text.substr(0, colon), text.substr(colon + 1)};
}

OtlpAttribute number_attribute(std::string_view key, std::string_view digits) {
  int64_t number = 0;
  return absl::SimpleAtoi(digits, &number) ? OtlpAttribute::of_number(key, number) : OtlpAttribute::of(key, {});
}

OtlpAttribute status_attribute(uint16_t status) {
  constexpr std::string_view kName = "http.response.status_code";
  return status == 0 ? OtlpAttribute::of(kName, {}) : OtlpAttribute::of_number(kName, status);
}

}  // namespace

RequestTrace::RequestTrace(RequestContext& context, OtlpExporter& exporter, const TraceParent& request)
    : context_(context), exporter_(exporter), request_(request), start_ns_(realtime_ns()) {}

RequestTrace::Attempt RequestTrace::begin() {
  Attempt attempt{.id = {}, .start_ns = realtime_ns(), .number = ++attempts_};
  context_.http_worker().ids().fill(attempt.id);
  return attempt;
}

void RequestTrace::send_attempt() {
  if (attempt_.start_ns == 0) begin_attempt();  // A hedge without a connection took its place.
  name(attempt_);
}

void RequestTrace::send_hedge(std::string_view endpoint) {
  hedge_ = begin();
  hedge_endpoint_bytes_ = endpoint.copy(hedge_endpoint_.data(), hedge_endpoint_.size());
  name(hedge_);
}

void RequestTrace::name(const Attempt& attempt) {
  Fields& fields = context_.request().fields;
  if (fields.remove("traceparent") == 0) return;
  TraceParent parent = request_;
  parent.parent_id = attempt.id;
  (void)fields.add(context_.pool(), "traceparent", digits(parent.text()));  // Without room, the trace ends here.
}

void RequestTrace::drop_attempt() {
  if (attempt_.start_ns != 0) --attempts_;
  attempt_ = Attempt();
}

void RequestTrace::use_hedge(std::string_view endpoint) {
  end(attempt_, {.endpoint = endpoint, .error = "cancelled"});
  attempt_ = std::exchange(hedge_, Attempt());
}

void RequestTrace::end(Attempt& attempt, const Result& result) {
  if (attempt.start_ns == 0) return;
  const RequestAttributes request = context_.attributes();
  const auto [address, port] = split_address(result.endpoint);
  std::array<char, 8> type;
  const std::string_view error = error_type(result.status, 400, result.error, type);
  const std::array attributes{
      OtlpAttribute::of("http.request.method", request.method),
      OtlpAttribute::of("server.address", address),
      number_attribute("server.port", port),
      OtlpAttribute::of_number("http.request.resend_count", attempt.number - 1),
      status_attribute(result.status),
      OtlpAttribute::of("error.type", error),
  };
  std::array<char, kMaxName> name;
  exporter_.add({.trace_id = digits(request_.trace_id),
                 .id = digits(attempt.id),
                 .parent_id = digits(request_.parent_id),
                 .kind = Span::Kind::kClient,
                 .name = name_of(request.method, {}, name),
                 .start_ns = attempt.start_ns,
                 .end_ns = realtime_ns(),
                 .attributes = attributes,
                 .failed = !error.empty()});
  attempt = Attempt();
}

void RequestTrace::end(const RequestOutcome& outcome, const Result& last) {
  end(attempt_, last);
  end(hedge_, {.endpoint = {hedge_endpoint_.data(), hedge_endpoint_bytes_}, .error = "cancelled"});
  end_request(outcome);
}

// The attributes are those of the semantic conventions for HTTP servers, version 1. The query is left out: it may hold
// secrets.
void RequestTrace::end_request(const RequestOutcome& outcome) {
  const RequestAttributes request = context_.attributes();
  const std::string_view reason = context_.end() == HttpEnd::kOk ? std::string_view() : http_end_name(context_.end());
  std::array<char, ClientIp::kTextBytes> ip;
  std::array<char, 8> type;
  const std::string_view error = error_type(outcome.status, 500, reason, type);
  const std::string_view route = context_.target() ? std::string_view(context_.target()->route->name) : "";
  const std::array attributes{
      OtlpAttribute::of("http.request.method", request.method),
      OtlpAttribute::of("url.scheme", request.scheme),
      OtlpAttribute::of("url.path", request.path),
      OtlpAttribute::of("server.address", request.host),
      OtlpAttribute::of("client.address", request.client->text(ip)),
      OtlpAttribute::of("network.protocol.version", request.http2 ? "2" : "1.1"),
      OtlpAttribute::of("user_agent.original", request.fields->value("user-agent")),
      status_attribute(outcome.status),
      OtlpAttribute::of("error.type", error),
      outcome.grpc_status ? OtlpAttribute::of_number("rpc.grpc.status_code", *outcome.grpc_status)
                          : OtlpAttribute::of("rpc.grpc.status_code", {}),
      OtlpAttribute::of("sluice.listener", request.listener),
      OtlpAttribute::of("sluice.route", route),
      OtlpAttribute::of("sluice.upstream", outcome.upstream),
      OtlpAttribute::of("sluice.request_id", request.request_id),
  };
  std::array<char, kMaxName> name;
  exporter_.add({.trace_id = digits(request_.trace_id),
                 .id = digits(request_.parent_id),
                 .parent_id = context_.parent_span(),
                 .kind = Span::Kind::kServer,
                 .name = name_of(request.method, route, name),
                 .start_ns = start_ns_,
                 .end_ns = realtime_ns(),
                 .attributes = attributes,
                 .failed = !error.empty() && context_.end() != HttpEnd::kClientReset});
}

}  // namespace sluice
