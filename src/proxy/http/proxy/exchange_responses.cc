// Responses of the proxy itself, and the fields that it adds to every response.

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <utility>

#include "net/worker.h"
#include "proxy/http/message/accept.h"
#include "proxy/http/message/error_pages.h"
#include "proxy/http/message/http_date.h"
#include "proxy/http/proxy/exchange.h"
#include "proxy/http/proxy/http_listener.h"
#include "proxy/http/proxy/http_session.h"
#include "proxy/http/proxy/http_upstream.h"
#include "proxy/http/proxy/http_worker.h"
#include "proxy/router/field_changes.h"
#include "proxy/router/rewrite.h"
#include "sluice/internal/check.h"

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
      return {404, kUnimplemented, "no route"};
    case HttpEnd::kNotAllowed:
      return {501, kUnimplemented, "this request is not allowed here"};
    case HttpEnd::kForbidden:
      return {403, kPermissionDenied, "forbidden"};
    case HttpEnd::kUnauthorized:
      return {401, kUnauthenticated, "the client is not authenticated"};
    case HttpEnd::kAuthBusy:
      return {503, kUnavailable, "too many passwords wait to be checked"};
    case HttpEnd::kNoEndpoint:
      return {503, kUnavailable, "no endpoint can be reached"};
    case HttpEnd::kNotResolved:
      return {503, kUnavailable, "the upstream's name does not resolve"};
    case HttpEnd::kTooManyPending:
      return {503, kUnavailable, "too many requests wait for a connection"};
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
    case HttpEnd::kStuck:
      return {503, kUnavailable, "queued data made no progress while memory was short"};
    case HttpEnd::kShutdown:
      return {503, kUnavailable, "shutting down"};
    case HttpEnd::kOk:
    case HttpEnd::kClientReset:
    case HttpEnd::kSendTimeout:
    case HttpEnd::kUpstreamReset:
      break;
  }
  return {502, kUnavailable, "the upstream failed before it responded"};
}

}  // namespace

void Exchange::fail(HttpEnd why) {
  stop_waiting();
  end_hedge();
  retry_at_ms_ = 0;
  if (upstream_) upstream_->reset(ResetReason::kCancelled);
  leave_upstream();
  leave_endpoint();
  if (!client_) return destroy();
  end_ = why;
  if (!response_begun_) {
    if (grpc_) return respond_grpc(why);
    const OwnResponse response = own_response(why);
    return respond_error(response.status, response.text);
  }
  // A truncated response must not look complete.
  const bool takes_nothing = why == HttpEnd::kSendTimeout || why == HttpEnd::kStuck;
  if (takes_nothing && !session_->http2()) session_->abandon();
  client_->reset(why == HttpEnd::kUpstreamReset ? upstream_reason_ : ResetReason::kInternal);
  release_client();
  destroy();
}

void Exchange::respond_error(uint16_t status, std::string_view message) {
  const OwnError error{.status = status,
                       .reason = http_end_name(end_),
                       .message = message,
                       .request_id = request_.fields.text(identity_.request_id),
                       .trace_id = request_.fields.text(identity_.trace_id)};
  // An error page may wait for a client that reads nothing, so while memory is short it is a single line.
  static const ErrorPages lines;
  const ErrorPages& pages = worker_.worker().in_reserve() ? lines : listener_.error_pages;
  const OwnBody body = pages.body(error, preferred_form(request_.fields));
  respond(status, body.content_type, body.text);
}

void Exchange::redirect(const config::Redirect& redirect) {
  static thread_local std::array<char, Fields::kMaxBytes> scratch;
  const std::optional<std::string_view> location =
      redirect_location(redirect, route_->match, facts(), config().paths, scratch);
  if (!location) return fail(HttpEnd::kBadRequest);
  respond(static_cast<uint16_t>(redirect.status), {}, {}, *location);
}

void Exchange::respond(uint16_t status, std::string_view content_type, std::string_view body,
                       std::string_view location) {
  ChunkPool& pool = worker_.worker().pool();
  Head head;
  head.status = status;
  head.own = true;
  std::array<char, 24> length;
  const auto written = std::to_chars(length.data(), length.data() + length.size(), body.size());
  const bool may_have_body = status != 204 && status != 304;
  bool room = head.fields.add(pool, "date", http_date());
  if (may_have_body) {
    room = room && (content_type.empty() || head.fields.add(pool, "content-type", content_type)) &&
           head.fields.add(pool, "content-length", {length.data(), static_cast<size_t>(written.ptr - length.data())});
  }
  // The Accept field determined the form of the error page.
  room = room && (end_ == HttpEnd::kOk || head.fields.add(pool, "vary", "accept"));
  SLUICE_CHECK(room);
  if (!location.empty() && !head.fields.add(pool, "location", location)) return fail(HttpEnd::kBadRequest);
  (void)change_response(head);  // A response without these changes is better than none.
  response_begun_ = response_ended_ = true;
  status_ = status;
  const bool end = body.empty() || !may_have_body || request_.method() == "HEAD";
  client_->send_head(head, end);
  if (!end) {
    response_bytes_ = body.size();
    const bool configured = route_ && route_->respond && body.data() == route_->respond->body.data();
    client_->send_body(configured ? listener_.bodies.of_config(pool, body) : listener_.bodies.of_page(pool, body),
                       true);
  }
  session_->wake();
  settle();
}

// Sends a trailers-only response, which is how gRPC clients expect errors.
void Exchange::respond_grpc(HttpEnd why) {
  ChunkPool& pool = worker_.worker().pool();
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
      head.fields.add(pool, "date", http_date()) && head.fields.add(pool, "content-type", "application/grpc") &&
      head.fields.add(pool, "grpc-status", {number.data(), static_cast<size_t>(written.ptr - number.data())}) &&
      head.fields.add(pool, "grpc-message", response.text);
  SLUICE_CHECK(room);
  (void)change_response(head);
  response_begun_ = response_ended_ = true;
  status_ = 200;
  client_->send_head(head, true);
  session_->wake();
  settle();
}

bool Exchange::change_response(Head& head) {
  ChunkPool& pool = worker_.worker().pool();
  const auto facts_of = [this] { return facts(); };
  const bool changed = return_request_id(head) && add_access_fields(head) &&
                       change_fields(pool, config().response_headers, facts_of, head.fields) &&
                       (!route_ || change_fields(pool, route_->response_headers, facts_of, head.fields));
  keep_response_fields(head);
  return changed;
}

}  // namespace sluice
