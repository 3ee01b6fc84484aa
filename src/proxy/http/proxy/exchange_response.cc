// The way of a response through an exchange, and the responses of the proxy itself.

#include <algorithm>
#include <array>
#include <charconv>
#include <system_error>
#include <utility>
#include <vector>

#include "net/worker.h"
#include "proxy/http/message/accept.h"
#include "proxy/http/message/error_pages.h"
#include "proxy/http/message/http_date.h"
#include "proxy/http/proxy/exchange.h"
#include "proxy/http/proxy/forward_head.h"
#include "proxy/http/proxy/http_listener.h"
#include "proxy/http/proxy/http_session.h"
#include "proxy/http/proxy/http_upstream.h"
#include "proxy/http/proxy/http_worker.h"
#include "proxy/http/proxy/upstream_connection.h"

namespace sluice {

namespace {

struct OwnResponse {
  uint16_t status;
  uint8_t grpc_status;  // As the gRPC documentation's statuscodes.md numbers them.
  std::string_view text;
};

OwnResponse own_response(HttpEnd end) {
  constexpr uint8_t kDeadlineExceeded = 4, kPermissionDenied = 7, kResourceExhausted = 8, kUnimplemented = 12,
                    kInternal = 13, kUnavailable = 14, kUnauthenticated = 16;
  switch (end) {
    case HttpEnd::kBadRequest:
      return {400, kInternal, "the request is malformed"};
    case HttpEnd::kBadPath:
      return {400, kInternal, "the path is not allowed"};
    case HttpEnd::kNoRoute:
      return {404, kUnimplemented, "no route matches the request"};
    case HttpEnd::kMisdirected:
      return {421, kUnavailable, "this connection is not for the host of the request"};
    case HttpEnd::kNotAllowed:
      return {501, kUnimplemented, "this method or upgrade is not allowed here"};
    case HttpEnd::kForbidden:
      return {403, kPermissionDenied, "this client or origin is not allowed here"};
    case HttpEnd::kUnauthorized:
      return {401, kUnauthenticated, "the client is not authenticated"};
    case HttpEnd::kAuthBusy:
      return {503, kUnavailable, "too many passwords wait to be checked"};
    case HttpEnd::kAuthFailed:
      return {503, kUnavailable, "the authorization server did not respond as it should"};
    case HttpEnd::kRateLimited:
      return {429, kResourceExhausted, "too many requests"};
    case HttpEnd::kRateLimitFailed:
      return {503, kUnavailable, "the service of rate limits did not respond as it should"};
    case HttpEnd::kMaintenance:
      return {503, kUnavailable, "down for maintenance"};
    case HttpEnd::kNoEndpoint:
      return {503, kUnavailable, "no endpoint can be reached"};
    case HttpEnd::kNotResolved:
      return {503, kUnavailable, "the upstream's name does not resolve"};
    case HttpEnd::kTooManyPending:
      return {503, kUnavailable, "too many requests wait for a connection"};
    case HttpEnd::kConcurrencyLimit:
      return {503, kUnavailable, "the upstream has as many requests as it can process"};
    case HttpEnd::kUpstreamMalformed:
      return {502, kInternal, "the upstream's response is malformed"};
    case HttpEnd::kUpstreamRefused:
      return {502, kUnimplemented, "the upstream does not support this request"};
    case HttpEnd::kResponseTimeout:
      return {504, kDeadlineExceeded, "the upstream did not respond in time"};
    case HttpEnd::kRequestTimeout:
    case HttpEnd::kDeadline:
      return {504, kDeadlineExceeded, "the request timed out"};
    case HttpEnd::kIdleTimeout:
      return {504, kDeadlineExceeded, "the request was idle for too long"};
    case HttpEnd::kBodyTimeout:
      return {408, kDeadlineExceeded, "the request body did not arrive in time"};
    case HttpEnd::kBodyTooLarge:
      return {413, kResourceExhausted, "the request's body is too large"};
    case HttpEnd::kOverload:
      return {503, kUnavailable, "the proxy has too many requests"};
    case HttpEnd::kStuck:
      return {503, kUnavailable, "queued data made no progress while memory was short"};
    case HttpEnd::kShutdown:
      return {503, kUnavailable, "the proxy is shutting down"};
    case HttpEnd::kOk:
    case HttpEnd::kAuthRefused:  // The client gets the authorizer's response.
    case HttpEnd::kMoved:
    case HttpEnd::kClientReset:
    case HttpEnd::kSendTimeout:
    case HttpEnd::kUpstreamReset:
      break;
  }
  return {502, kUnavailable, "the upstream failed before it responded"};
}

// Whether the upstream has no response to give.
bool is_of_upstream(HttpEnd end) {
  switch (end) {
    case HttpEnd::kNoEndpoint:
    case HttpEnd::kNotResolved:
    case HttpEnd::kTooManyPending:
    case HttpEnd::kUpstreamReset:
    case HttpEnd::kUpstreamMalformed:
    case HttpEnd::kUpstreamRefused:
    case HttpEnd::kResponseTimeout:
      return true;
    default:
      return false;
  }
}

}  // namespace

void Exchange::take_response(Head&& head, bool end) {
  if (head.status < 200 && head.status != 101) {
    client_->send_head(head, false);
    return session_->wake();
  }
  report_response(head.status, now_ms());
  if (has_place()) [[unlikely]]
    leave_place(status_of(head, end));
  to_->latencies().response.add(now_ms() - deadlines_.waiting_since_ms);
  if (head.status < 500) to_->retry_budget().note_response(now_ms());
  if (retry_instead_of(head, end)) return;
  end_hedge();
  if (by_hedge()) to_->counters().hedges_won.add();
  body_.forget_kept();
  log_.note_response(*this);
  if (grpc_) note_grpc_status(head.fields);  // It is here if no message precedes it.
  // In HTTP/2, every 2xx accepts the tunnel, so this response cannot be passed to an HTTP/2 client.
  if (tunnel_ && head.ignores_upgrade && session_->http2()) return fail(HttpEnd::kUpstreamRefused);
  response_.begin();
  status_ = head.status;
  if (tunnel_) {
    tunnel_agreed_ = head.status / 100 == 2 && !head.ignores_upgrade;
    if (tunnel_agreed_) {
      if (!session_->http2() && !request_.protocol().empty()) status_ = 101;  // The status that the client receives.
      listener_.counters.tunnels.add();
      watch();  // A tunnel has its own idle timeout.
    }
    request_ended_ = request_ended_ || !tunnel_agreed_;
  }
  to_->counters().statuses[status_ / 100].add();
  deadlines_.response_ms = deadlines_.active_ms;
  if (end) {
    response_.end();
    note_response_end();
  }
  // A recipient adds a Date to a response without one (RFC 9110 section 6.6.1): caches behind this proxy count from it.
  const bool dated =
      tunnel_agreed_ || head.fields.find("date") != Fields::npos || head.fields.add(pool(), "date", http_date());
  const bool http2 = to_->config().protocol == config::Protocol::kHttp2;
  if (!dated || !add_via(pool(), http2 ? listener_.via_http2 : listener_.via_http1, head) ||
      (to_->config().sticky && !to_->keep_client(facts(), endpoint_, head.fields)) || !change_response(head, end) ||
      !run_response_phases(PhaseStep::kResponseBody, head, end)) {
    return fail(HttpEnd::kUpstreamMalformed);
  }
  if (!listener_.log && !trace_) request_.clear();
  note_first_byte();
  client_->send_head(head, end);
  session_->wake();
  settle();
}

// The status, or that of HTTP which says the same as a gRPC call without a message.
uint16_t Exchange::status_of(const Head& head, bool end) const {
  if (!grpc_ || !end) return head.status;
  const std::string_view status = head.fields.value("grpc-status");
  if (status.empty() || status == "0") return head.status;
  if (status == "8" || status == "14") return 503;  // RESOURCE_EXHAUSTED, UNAVAILABLE
  return status == "4" ? 504 : 500;                 // DEADLINE_EXCEEDED
}

// For the access log. A value that is no status of gRPC is none.
void Exchange::note_grpc_status(const Fields& fields) {
  const std::string_view text = fields.value("grpc-status");
  uint8_t status = 0;
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), status);
  const bool is_status = error == std::errc{} && rest == text.data() + text.size() && status <= kMaxGrpcStatus;
  if (is_status && !text.empty()) grpc_status_ = status & kNoGrpcStatus;
}

// Call it where the response is complete as the endpoint has sent it.
void Exchange::note_response_end() {
  if (request_ended_ && !tunnel_agreed_) to_->latencies().whole.add(now_ms() - deadlines_.request_ms);
}

void Exchange::response_body(Buffer&& body, bool end) {
  if (end) note_response_end();
  response_.send(std::move(body), end);
  if (log_.begun()) note_pinned();
  regulate_response();
  settle();
}

// What waits in the proxy of both bodies.
void Exchange::note_pinned() {
  size_t bytes = response_.pinned() + body_.pinned();
  if (upstream_) bytes += upstream_->queued();
  log_.note_pinned(bytes);
}

void Exchange::response_trailers(Fields&& trailers) {
  if (grpc_) note_grpc_status(trailers);
  note_response_end();
  response_.send_trailers(std::move(trailers));
  settle();
}

// Pauses the upstream while the client does not keep up.
void Exchange::regulate_response() {
  if (!upstream_ || response_.ended()) return;
  const bool paused = response_.paused();
  if (response_.must_pause() == paused) return;
  upstream_->set_reading(paused);
  if (paused) connection_->wake();
}

bool Exchange::run_response_phases(PhaseStep step, Head& head, bool end) {
  if (!phases_) return true;
  const std::vector<Phase*>& phases = phases_->at(step);
  return std::all_of(phases.begin(), phases.end(), [&](Phase* phase) { return phase->on_response(*this, head, end); });
}

bool Exchange::change_response(Head& head, bool end) {
  const bool changed = run_response_phases(PhaseStep::kResponseFields, head, end) &&
                       run_response_phases(PhaseStep::kResponseRules, head, end);
  log_.keep_fields(*this, head);
  return changed;
}

// ---- Our own responses ----

void Exchange::fail(HttpEnd why, uint16_t status) {
  if (why == HttpEnd::kRequestTimeout || why == HttpEnd::kIdleTimeout) report_timeout();
  stop_waiting();
  end_hedge();
  deadlines_.retry_ms = RequestDeadlines::kNever;
  stop_phase();
  if (upstream_) upstream_->reset(ResetReason::kCancelled);
  leave_upstream();
  leave_endpoint();
  if (!client_) return retire();
  end_ = why;
  if (to_ && why == HttpEnd::kResponseTimeout) to_->counters().timeouts.add();
  if (!response_.begun()) {
    const OwnResponse response = own_response(why);
    if (to_ && is_of_upstream(why)) to_->counters().statuses[response.status / 100].add();
    if (grpc_) return respond_grpc(why);
    return respond_error(status != 0 ? status : response.status, response.text);
  }
  // A truncated response must not look complete.
  const bool takes_nothing = why == HttpEnd::kSendTimeout || why == HttpEnd::kStuck;
  if (takes_nothing && !session_->http2()) session_->abandon_output();
  client_->reset(why == HttpEnd::kUpstreamReset ? upstream_reason_ : ResetReason::kInternal);
  release_client();
  retire();
}

void Exchange::respond_error(uint16_t status, std::string_view message) {
  const OwnError error{.status = status,
                       .reason = http_end_name(end_),
                       .message = message,
                       .request_id = request_.fields.text(identity_.request_id),
                       .trace_id = request_.fields.text(identity_.trace_id)};
  // An error page may wait for a client that reads nothing, so while memory is short it is a single line.
  static const ErrorPages lines;
  const ErrorPages& pages = loop_.in_reserve() ? lines : listener_.error_pages;
  const OwnBody body = pages.body(error, preferred_form(request_.fields));
  respond(status, body.content_type, body.text);
}

void Exchange::respond(uint16_t status, std::string_view content_type, std::string_view body,
                       std::string_view location) {
  ChunkPool& chunks = pool();
  Head head;
  head.status = status;
  head.own = true;
  std::array<char, 24> length;
  const auto written = std::to_chars(length.data(), length.data() + length.size(), body.size());
  const bool may_have_body = status != 204 && status != 304;
  bool room = head.fields.add(chunks, "date", http_date());
  if (may_have_body) {
    room = room && (content_type.empty() || head.fields.add(chunks, "content-type", content_type)) &&
           head.fields.add(chunks, "content-length", {length.data(), static_cast<size_t>(written.ptr - length.data())});
  }
  // The Accept field determined the form of the error page.
  room = room && (end_ == HttpEnd::kOk || head.fields.add(chunks, "vary", "accept"));
  if (end_ == HttpEnd::kOverload || end_ == HttpEnd::kConcurrencyLimit) [[unlikely]]
    room = room && head.fields.add(chunks, "retry-after", "1");
  SLUICE_CHECK(room);
  if (!location.empty() && !head.fields.add(chunks, "location", location)) return fail(HttpEnd::kBadRequest);
  (void)change_response(head, true);  // A response without these changes is better than none.
  response_.begin();
  response_.end();
  status_ = status;
  const bool end = body.empty() || !may_have_body || request_.method() == "HEAD";
  note_first_byte();
  client_->send_head(head, end);
  if (!end) {
    const bool configured = target_ && target_->route->respond && body.data() == target_->route->respond->body.data();
    response_.send_whole(configured ? listener_.bodies.of_config(chunks, body)
                                    : listener_.bodies.of_page(chunks, body));
  }
  session_->wake();
  settle();
}

// Sends the response of another server instead of an own one.
void Exchange::respond_with(HttpEnd why, OtherResponse&& response) {
  end_ = why;
  status_ = response.head.status;
  if (grpc_) note_grpc_status(response.head.fields);
  const bool end = response.body.empty() || request_.method() == "HEAD";
  response.head.own = true;
  (void)change_response(response.head, end);
  response_.begin();
  response_.end();
  note_first_byte();
  client_->send_head(response.head, end);
  if (!end) {
    response_.send_whole(std::move(response.body));
  }
  session_->wake();
  settle();
}

// Sends a trailers-only response, which is how gRPC clients expect errors.
void Exchange::respond_grpc(HttpEnd why) {
  ChunkPool& chunks = pool();
  const OwnResponse response = own_response(why);
  uint8_t status = response.grpc_status;
  if (why == HttpEnd::kUpstreamReset) {
    if (upstream_reason_ == ResetReason::kCancelled) status = 1;  // CANCELLED
    if (upstream_reason_ == ResetReason::kOverload) status = 8;   // RESOURCE_EXHAUSTED
  }
  Head head;
  head.status = 200;
  head.own = true;
  std::array<char, 4> number;
  const auto written = std::to_chars(number.data(), number.data() + number.size(), status);
  const bool room =
      head.fields.add(chunks, "date", http_date()) && head.fields.add(chunks, "content-type", "application/grpc") &&
      head.fields.add(chunks, "grpc-status", {number.data(), static_cast<size_t>(written.ptr - number.data())}) &&
      head.fields.add(chunks, "grpc-message", response.text);
  SLUICE_CHECK(room);
  note_grpc_status(head.fields);
  (void)change_response(head, true);
  response_.begin();
  response_.end();
  status_ = 200;
  note_first_byte();
  client_->send_head(head, true);
  session_->wake();
  settle();
}

}  // namespace sluice
