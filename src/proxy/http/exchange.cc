#include "proxy/http/exchange.h"

#include <time.h>

#include <algorithm>
#include <array>
#include <new>
#include <optional>
#include <span>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "net/worker.h"
#include "pool/check.h"
#include "proxy/http/forward_head.h"
#include "proxy/http/http_listener.h"
#include "proxy/http/http_session.h"
#include "proxy/http/http_worker.h"
#include "proxy/log/access_line.h"
#include "proxy/log/access_log.h"
#include "proxy/route/canonical_path.h"
#include "proxy/route/field_changes.h"
#include "proxy/route/http_router.h"
#include "proxy/route/rewrite.h"
#include "proxy/upstream/http_upstream.h"
#include "proxy/upstream/upstream_connection.h"

namespace sluice {

namespace {

// The share of the chunk budget's rest that one side of an exchange may queue, and what it may at least.
constexpr size_t kHighMarkShare = 32;
constexpr size_t kHighMarkMin = size_t{16} * 1024;

// So many times config::Http::buffer_high is what the streams of a connection may queue together.
constexpr size_t kConnectionMarks = 4;

// How often an exchange that is stuck asks whether it should give way, while memory is short and while it is not.
constexpr uint64_t kGiveWayRetryMs = 100;
constexpr uint64_t kStuckRetryMs = 1000;

uint64_t milliseconds(config::Duration duration) { return static_cast<uint64_t>(duration.count()); }

// A method that may be sent twice (RFC 9110 section 9.2.2).
bool is_idempotent(std::string_view method) {
  return method == "GET" || method == "HEAD" || method == "OPTIONS" || method == "TRACE" || method == "PUT" ||
         method == "DELETE";
}

uint64_t monotonic_us() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000 + static_cast<uint64_t>(now.tv_nsec) / 1000;
}

// Some servers take it for a hyphen, and so a field for another one.
bool has_underscore(const Fields& fields) {
  return std::any_of(fields.begin(), fields.end(),
                     [](const Fields::Field& field) { return field.name.find('_') != std::string_view::npos; });
}

}  // namespace

// ---- The beginning ----

Exchange& Exchange::begin(HttpSession& session, HttpStream& client) {
  return *new (session.worker().take_exchange_memory()) Exchange(session, client);
}

Exchange::Exchange(HttpSession& session, HttpStream& client)
    : worker_(session.worker()),
      listener_(session.listener()),
      session_(&session),
      client_(&client),
      timer_([](void* self) { static_cast<Exchange*>(self)->on_timer(); }, this),
      started_ms_(now_ms()),
      last_active_ms_(started_ms_),
      last_request_ms_(started_ms_),
      last_response_ms_(started_ms_) {
  listener_.counters.requests.add();
  if (listener_.log) started_us_ = monotonic_us();
}

Exchange::~Exchange() { leave_endpoint(); }

const config::Http& Exchange::config() const { return listener_.config; }
uint64_t Exchange::now_ms() const { return worker_.worker().now_ms(); }
void Exchange::note_activity() { last_active_ms_ = now_ms(); }

size_t Exchange::high_mark() const {
  const size_t of_worker = worker_.worker().pool().headroom_bytes() / kHighMarkShare;
  const size_t of_connection = config().buffer_high.bytes * kConnectionMarks / (session_ ? session_->streams() : 1);
  return std::min<size_t>(config().buffer_high.bytes, std::max(std::min(of_worker, of_connection), kHighMarkMin));
}

// ---- What streams tell ----

// Each of these may end with the exchange destroyed.

void Exchange::on_head(HttpStream& stream, Head&& head, bool end) {
  note_activity();
  if (&stream != client_) return take_response(std::move(head), end);
  request_ = std::move(head);
  take_request(end);
}

void Exchange::on_body(HttpStream& stream, Buffer&& body, bool end) {
  note_activity();
  &stream == client_ ? request_body(std::move(body), end) : response_body(std::move(body), end);
}

void Exchange::on_trailers(HttpStream& stream, Fields&& trailers) {
  note_activity();
  if (&stream == client_) return request_trailers(std::move(trailers));
  response_ended_ = true;
  client_->send_trailers(trailers);
  session_->wake();
  settle();
}

void Exchange::on_reset(HttpStream& stream, ResetReason reason) {
  &stream == client_ ? client_reset(reason) : upstream_reset(reason);
}

void Exchange::on_drained(HttpStream& stream) {
  note_activity();
  const size_t low = high_mark() / 2;
  if (&stream == client_) {
    last_response_ms_ = last_active_ms_;
    session_->note_progress();
    if (response_paused_ && upstream_ && client_->queued() <= low) {
      response_paused_ = false;
      upstream_->set_reading(true);
      connection_->wake();
    }
  } else {
    last_passed_ms_ = last_active_ms_;
    if (request_paused_ && client_ && upstream_->queued() <= low) {
      request_paused_ = false;
      last_request_ms_ = last_active_ms_;
      client_->set_reading(true);
      session_->wake();
    }
  }
  settle();
}

// ---- The request ----

void Exchange::take_request(bool end) {
  request_ended_ = end;
  grpc_ = is_grpc(request_);
  watch();
  const bool connect = request_.method() == "CONNECT" && request_.protocol().empty();
  tunnel_ = connect || !request_.protocol().empty();
  if (connect ? !config().allow_connect : tunnel_ && !config().websocket) return fail(HttpEnd::kNotAllowed);
  if (request_.authority().empty()) return fail(HttpEnd::kBadRequest);  // HTTP/1.0 may leave it out, but we may not.
  // How it came is what counts, not what the client says of that.
  const std::string_view scheme = listener_.http1.secure ? "https" : "http";
  if (request_.scheme() != scheme && !connect && !request_.set(worker_.worker().pool(), Head::Part::kScheme, scheme)) {
    return fail(HttpEnd::kBadRequest);
  }
  if (session_->http2()) {
    // What the other codec has looked at already.
    if (!listener_.http1.allow_underscores && has_underscore(request_.fields)) return fail(HttpEnd::kBadRequest);
    if (const std::string_view expected = request_.fields.value("expect");
        !expected.empty() && !absl::EqualsIgnoreCase(expected, "100-continue")) {
      end_ = HttpEnd::kBadRequest;
      return respond(417, "text/plain; charset=utf-8", "an expectation that nobody can meet\n");
    }
  }
  if (!connect && !make_canonical()) return fail(HttpEnd::kBadPath);
  const HttpTarget* const target = listener_.router.route(facts());
  if (!target) return fail(HttpEnd::kNoRoute);
  route_ = target->route;
  if (route_->redirect) return redirect(*route_->redirect);
  if (const auto& answer = route_->respond) {
    return respond(static_cast<uint16_t>(answer->status), answer->content_type, answer->body);
  }
  to_ = &worker_.upstream(target->upstream);
  uint64_t told_bytes = 0;  // Where it is told: the codecs have seen that it is a number.
  if (absl::SimpleAtoi(request_.fields.value("content-length"), &told_bytes) && is_too_much_body(told_bytes)) {
    return fail(HttpEnd::kBodyTooLarge);
  }
  find_deadline();
  if (!change_request()) return fail(HttpEnd::kBadRequest);
  watch();  // There is more to watch now.
  send_request();
}

// Routes, logs and upstreams see one form of a path.
bool Exchange::make_canonical() {
  static thread_local std::array<char, Fields::kMaxBytes> scratch;
  const CanonicalTarget canonical = canonical_target(request_.path(), config().paths, scratch);
  HttpCounters& counters = listener_.counters;
  if (canonical.relaxed.merged_slashes) counters.slashes_merged.add();
  if (canonical.relaxed.escaped_slashes) counters.slashes_escaped.add();
  if (canonical.relaxed.backslashes) counters.backslashes.add();
  if (canonical.relaxed.dot_parameters) counters.dot_parameters.add();
  switch (canonical.status) {
    case PathStatus::kSame:
      return true;
    case PathStatus::kChanged:
      counters.paths_changed.add();
      return request_.set(worker_.worker().pool(), Head::Part::kPath, canonical.target);
    case PathStatus::kInvalid:
      break;
  }
  return false;
}

std::string_view Exchange::asked_path() const {
  return asked_path_.size > 0 ? request_.fields.text(asked_path_) : request_.path();
}
std::string_view Exchange::asked_authority() const {
  return asked_authority_.size > 0 ? request_.fields.text(asked_authority_) : request_.authority();
}

HttpFacts Exchange::facts() const {
  static thread_local std::array<char, Fields::kMaxBytes> scratch;
  const std::string_view target = asked_path(), authority = asked_authority();
  const size_t path_bytes = std::min(target.find('?'), target.size());
  return {.host = canonical_host(authority, scratch),
          .path = target.substr(0, path_bytes),
          .query = target.substr(std::min(path_bytes + 1, target.size())),
          .authority = authority,
          .method = request_.method(),
          .scheme = request_.scheme(),
          .fields = &request_.fields,
          .client = &session_->client_ip(),
          .agreed = session_->agreed(),
          .listener = listener_.listener.name,
          .http2 = session_->http2()};
}

bool Exchange::is_too_much_body(uint64_t bytes) const {
  const uint64_t limit = route_->max_body.value_or(config().max_body).bytes;
  return limit > 0 && bytes > limit && !tunnel_;
}

// What the upstream is asked for, and told. False when it is more than a head can hold.
bool Exchange::change_request() {
  ChunkPool& pool = worker_.worker().pool();
  if (route_->rewrite && !rewrite(*route_->rewrite)) return false;
  std::array<char, ClientIp::kTextBytes> ip;
  if (!add_forwarded(pool, config().forwarded_for, session_->client_ip().text(ip), listener_.http1.secure,
                     session_->http2() ? listener_.via_http2 : listener_.via_http1, request_)) {
    return false;
  }
  const auto facts_of = [this] { return facts(); };
  return change_fields(pool, config().request_headers, facts_of, request_.fields) &&
         change_fields(pool, route_->request_headers, facts_of, request_.fields);
}

bool Exchange::rewrite(const config::Rewrite& rewrite) {
  ChunkPool& pool = worker_.worker().pool();
  if (!rewrite.host.empty() && !(request_.fields.keep(pool, request_.authority(), asked_authority_) &&
                                 request_.set(pool, Head::Part::kAuthority, rewrite.host))) {
    return false;
  }
  if (request_.path().empty() || (rewrite.path.empty() && rewrite.prefix.empty())) return true;
  if (!request_.fields.keep(pool, request_.path(), asked_path_)) return false;
  static thread_local std::array<char, Fields::kMaxBytes> scratch;
  const HttpFacts asked = facts();
  const std::optional<std::string_view> path = changed_path(rewrite, route_->match, asked, scratch);
  return path && request_.set(pool, Head::Part::kPath, *path, request_.path().substr(asked.path.size()));
}

void Exchange::find_deadline() {
  if (!tunnel_ && config().request_timeout.count() > 0) {
    deadline_ms_ = started_ms_ + milliseconds(config().request_timeout);
  }
  if (!grpc_) return;
  const std::optional<uint64_t> timeout_ms = parse_grpc_timeout(request_.fields.value("grpc-timeout"));
  if (!timeout_ms || started_ms_ + *timeout_ms >= deadline_ms_) return;
  deadline_ms_ = started_ms_ + *timeout_ms;
  deadline_is_grpc_ = true;
}

void Exchange::send_request() {
  waiting_ = true;
  asked_ms_ = now_ms();
  to_->request(*this);
}

bool Exchange::attempts_left() const { return attempts_ < to_->config().connect_attempts; }

void Exchange::chose(uint32_t endpoint) {
  leave_endpoint();
  endpoint_ = endpoint;
  tried_.add(endpoint);
  ++attempts_;
  to_->state().endpoint(endpoint).active.fetch_add(1, std::memory_order_relaxed);
  endpoint_counted_ = true;
}

void Exchange::leave_endpoint() {
  if (!std::exchange(endpoint_counted_, false)) return;
  to_->state().endpoint(endpoint_).active.fetch_sub(1, std::memory_order_relaxed);
}

void Exchange::on_upstream(UpstreamConnection& connection, HttpStream& stream) {
  waiting_ = false;
  connection_ = &connection;
  upstream_ = &stream;
  used_connection_ = connection.used();
  if (!request_.protocol().empty() && !connection.takes_protocols()) return fail(HttpEnd::kUpstreamRefused);
  asked_ms_ = last_passed_ms_ = now_ms();
  const bool whole = request_ended_ && !tunnel_;
  const bool end = whole && held_.empty() && held_trailers_.empty();
  upstream_->send_head(request_, end);
  if (end) return;
  const bool body_ends = request_ended_ && held_trailers_.empty();
  if (!held_.empty() || body_ends) {
    body_passed_ = true;
    upstream_->send_body(std::move(held_), body_ends);
  }
  if (!held_trailers_.empty()) {
    upstream_->send_trailers(held_trailers_);
    held_trailers_.clear();
  }
  if (request_paused_) {
    request_paused_ = false;
    client_->set_reading(true);
    session_->wake();
  }
}

void Exchange::on_no_upstream(HttpEnd why) {
  waiting_ = false;
  fail(why);
}

void Exchange::on_connect_failed() {
  listener_.counters.retries.add();
  send_request();
}

void Exchange::request_body(Buffer&& body, bool end) {
  request_bytes_ += body.size();
  last_request_ms_ = last_active_ms_;
  request_ended_ = request_ended_ || end;
  if (to_ && !response_begun_ && is_too_much_body(request_bytes_)) {
    body.clear();
    return fail(HttpEnd::kBodyTooLarge);
  }
  if (upstream_) {
    body_passed_ = true;
    asked_ms_ = last_active_ms_;
    if (upstream_->queued() == 0) last_passed_ms_ = last_active_ms_;
    upstream_->send_body(std::move(body), end);
    connection_->wake();
    if (!end && upstream_->queued() >= high_mark()) pause_request();
  } else if (waiting_) {
    held_.append(std::move(body));
    if (!end && held_.size() >= high_mark()) pause_request();
  } else {
    body.clear();  // It was answered already.
  }
  settle();
}

void Exchange::pause_request() {
  request_paused_ = true;
  client_->set_reading(false);
}

void Exchange::request_trailers(Fields&& trailers) {
  request_ended_ = true;
  if (upstream_) {
    body_passed_ = true;
    asked_ms_ = last_active_ms_;
    upstream_->send_trailers(trailers);
    connection_->wake();
  } else if (waiting_) {
    held_trailers_ = std::move(trailers);
  }
  settle();
}

// ---- The response ----

void Exchange::take_response(Head&& head, bool end) {
  if (head.status < 200 && head.status != 101) {
    client_->send_head(head, false);
    return session_->wake();
  }
  response_begun_ = true;
  status_ = head.status;
  if (listener_.log) response_head_us_ = std::max<uint64_t>(monotonic_us() - started_us_, 1);
  if (tunnel_) {
    tunnel_agreed_ = head.status / 100 == 2;
    if (tunnel_agreed_) {
      listener_.counters.tunnels.add();
      watch();  // Its time is another.
    }
    request_ended_ = request_ended_ || !tunnel_agreed_;
  }
  last_response_ms_ = last_active_ms_;
  response_ended_ = end;
  const bool http2 = to_->config().protocol == config::Protocol::kHttp2;
  if (!add_via(worker_.worker().pool(), http2 ? listener_.via_http2 : listener_.via_http1, head) ||
      !change_response(head)) {
    return fail(HttpEnd::kUpstreamMalformed);
  }
  if (!listener_.log) request_.clear();
  client_->send_head(head, end);
  session_->wake();
  settle();
}

void Exchange::response_body(Buffer&& body, bool end) {
  response_bytes_ += body.size();
  response_ended_ = end;
  if (client_->queued() == 0) last_response_ms_ = last_active_ms_;
  client_->send_body(std::move(body), end);
  session_->wake();
  if (!end && client_->queued() >= high_mark()) {
    response_paused_ = true;
    upstream_->set_reading(false);
  }
  settle();
}

bool Exchange::can_retry(ResetReason reason) const {
  if (response_begun_ || body_passed_ || !attempts_left()) return false;
  if (reason == ResetReason::kRefused) return true;
  // The endpoint closed a connection that had waited, and perhaps has never seen the request.
  return reason == ResetReason::kConnectionLost && used_connection_ && !wants_fresh_ &&
         (is_idempotent(request_.method()) || !request_.protocol().empty());  // An upgrade is a GET.
}

void Exchange::upstream_reset(ResetReason reason) {
  const bool again = can_retry(reason);
  leave_upstream();
  if (response_ended_ && !tunnel_agreed_) return settle();
  if (again) {
    listener_.counters.retries.add();
    wants_fresh_ = true;
    tried_ = TriedEndpoints();
    return send_request();
  }
  upstream_reason_ = reason;
  fail(reason == ResetReason::kMalformed || reason == ResetReason::kTooLarge ? HttpEnd::kUpstreamMalformed
                                                                             : HttpEnd::kUpstreamReset);
}

// ---- The end ----

void Exchange::client_reset(ResetReason reason) {
  if (!response_ended_ || !client_->sent_all()) {
    end_ = session_->shutting_down()                                               ? HttpEnd::kShutdown
           : reason == ResetReason::kMalformed || reason == ResetReason::kTooLarge ? HttpEnd::kBadRequest
                                                                                   : HttpEnd::kClientReset;
  }
  if (std::exchange(waiting_, false)) to_->cancel(*this);
  if (upstream_) upstream_->reset(ResetReason::kCancelled);
  leave_upstream();
  release_client();
  destroy();
}

void Exchange::leave_upstream() {
  if (!upstream_) return;
  std::exchange(upstream_, nullptr)->release();
  std::exchange(connection_, nullptr)->detach();
  leave_endpoint();
}

void Exchange::release_client() {
  finish();
  std::exchange(client_, nullptr)->release();
  std::exchange(session_, nullptr)->wake();
}

// Leaves what has ended, and ends itself with the last of it.
void Exchange::settle() {
  const bool tunnel = tunnel_agreed_;
  if (upstream_ && response_ended_ && (!tunnel || (request_ended_ && upstream_->sent_all()))) leave_upstream();
  if (client_ && response_ended_ && client_->sent_all() && (!tunnel || (request_ended_ && !upstream_))) {
    release_client();
  }
  if (!client_ && !upstream_) destroy();
}

void Exchange::destroy() {
  HttpWorker& worker = worker_;
  this->~Exchange();
  worker.give_exchange_memory(this);
}

void Exchange::finish() {
  HttpCounters& counters = listener_.counters;
  counters.ended[static_cast<size_t>(end_)].add();
  if (status_ >= 100) counters.statuses[status_ / 100].add();
  counters.request_bytes.add(request_bytes_);
  counters.response_bytes.add(response_bytes_);
  if (listener_.log) log();
}

// ---- Time ----

// Activity only notes the time; the timer looks at it when it fires, and sleeps on if there was some.
void Exchange::on_timer() {
  const uint64_t now = now_ms();
  if (now >= deadline_ms_) return fail(deadline_is_grpc_ ? HttpEnd::kDeadline : HttpEnd::kRequestTimeout);
  const uint64_t idle_ms = milliseconds(tunnel_agreed_ ? config().tunnel_timeout : config().stream_idle_timeout);
  if (idle_ms > 0 && now >= last_active_ms_ + idle_ms) return fail(HttpEnd::kIdleTimeout);
  if (awaits_response()) {
    const uint64_t response_ms = milliseconds(to_->config().response_timeout);
    if (response_ms > 0 && now >= asked_ms_ + response_ms) {
      connection_->suspect(asked_ms_);
      return fail(HttpEnd::kResponseTimeout);
    }
  }
  if (awaits_body()) {
    const uint64_t body_ms = milliseconds(config().body_timeout);
    if (body_ms > 0 && now >= last_request_ms_ + body_ms) return fail(HttpEnd::kBodyTimeout);
  }
  const uint64_t stuck_ms = milliseconds(config().stuck_timeout);
  if (stuck_ms > 0 && session_ && now >= stuck_since_ms() + stuck_ms && session_->should_give_way()) {
    return fail(HttpEnd::kStuck);
  }
  // While the socket is full, it is the session that watches.
  if (awaits_client()) {
    const uint64_t send_ms = milliseconds(config().send_timeout);
    const uint64_t since = std::max(last_response_ms_, session_->last_progress_ms());
    if (send_ms > 0 && now >= since + send_ms) return fail(HttpEnd::kSendTimeout);
  }
  watch();
}

bool Exchange::awaits_response() const { return upstream_ && request_ended_ && !response_begun_; }
bool Exchange::awaits_body() const {
  return client_ && !request_ended_ && !request_paused_ && !tunnel_ && !response_ended_;
}
bool Exchange::awaits_client() const { return client_ && client_->queued() > 0 && !session_->has_queued(); }

// Since when bytes wait here of which nobody takes any; now, where there are none. That more of them come does not
// count; nor what the client takes of others, where it is this one that it does not want.
uint64_t Exchange::stuck_since_ms() const {
  uint64_t since = now_ms();
  if (client_ && client_->queued() > 0) {
    since = client_->blocked() ? last_response_ms_ : std::max(last_response_ms_, session_->last_progress_ms());
  }
  if (!held_.empty()) since = std::min(since, asked_ms_);
  if (upstream_ && upstream_->queued() > 0) since = std::min(since, last_passed_ms_);
  return since;
}

// Due when the first of what is watched could be.
void Exchange::watch() {
  const uint64_t now = now_ms();
  uint64_t due = deadline_ms_;
  const auto consider = [&](uint64_t since, config::Duration limit) {
    if (limit.count() > 0) due = std::min(due, std::max(since + milliseconds(limit), now + 1));
  };
  consider(last_active_ms_, tunnel_agreed_ ? config().tunnel_timeout : config().stream_idle_timeout);
  if (to_ && !response_begun_) consider(awaits_response() ? asked_ms_ : now, to_->config().response_timeout);
  if (!request_ended_ && !tunnel_) consider(awaits_body() ? last_request_ms_ : now, config().body_timeout);
  if (!tunnel_agreed_ || awaits_client()) {
    consider(awaits_client() ? std::max(last_response_ms_, session_->last_progress_ms()) : now, config().send_timeout);
  }
  if (const uint64_t stuck_ms = milliseconds(config().stuck_timeout); stuck_ms > 0) {
    const uint64_t retry_ms = worker_.worker().short_of_memory() ? kGiveWayRetryMs : kStuckRetryMs;
    due = std::min(due, std::max(stuck_since_ms() + stuck_ms, now + retry_ms));
  }
  if (due != UINT64_MAX) worker_.worker().timers().arm(timer_, due);
}

void Exchange::log() {
  const std::span<char> room = listener_.log->begin();
  if (room.empty()) return;
  AccessRecord record;
  timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  const uint64_t duration_us = monotonic_us() - started_us_;
  record.time_ms = int64_t{now.tv_sec} * 1000 + now.tv_nsec / 1'000'000 - static_cast<int64_t>(duration_us / 1000);
  std::array<char, ClientIp::kTextBytes> ip;
  record.client = session_->client_ip().text(ip);
  record.listener = listener_.listener.name;
  record.protocol = session_->http2() ? "HTTP/2" : "HTTP/1.1";
  if (session_->agreed()) record.tls = session_->agreed()->version;
  record.method = request_.method();
  record.authority = asked_authority();
  record.path = asked_path();
  record.status = status_;
  record.reason = http_end_name(end_);
  record.request_bytes = request_bytes_;
  record.response_bytes = response_bytes_;
  record.duration_us = duration_us;
  if (response_head_us_ != 0) record.upstream_us = response_head_us_;
  if (to_) record.upstream = to_->config().name;
  if (attempts_ > 0) record.endpoint = to_->endpoint_name(endpoint_);
  record.user_agent = request_.fields.value("user-agent");
  listener_.log->commit(format_access_line(record, room));
}

}  // namespace sluice
