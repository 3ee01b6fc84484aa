#include "proxy/http/proxy/exchange.h"

#include <algorithm>
#include <array>
#include <new>
#include <optional>
#include <span>
#include <utility>

#include "absl/strings/numbers.h"
#include "net/worker.h"
#include "proxy/auth/basic_authenticator.h"
#include "proxy/http/message/message_rules.h"
#include "proxy/http/proxy/body_buffer.h"
#include "proxy/http/proxy/forward_head.h"
#include "proxy/http/proxy/hedged_request.h"
#include "proxy/http/proxy/http_listener.h"
#include "proxy/http/proxy/http_session.h"
#include "proxy/http/proxy/http_upstream.h"
#include "proxy/http/proxy/http_worker.h"
#include "proxy/http/proxy/mirrored_request.h"
#include "proxy/http/proxy/response_compression.h"
#include "proxy/http/proxy/upstream_connection.h"
#include "proxy/router/canonical_path.h"
#include "proxy/router/field_changes.h"
#include "proxy/router/http_router.h"
#include "proxy/router/rewrite.h"
#include "sluice/internal/check.h"

namespace sluice {

namespace {

// What each stream may queue even if its connection has very many streams, as long as memory is not short.
constexpr size_t kStreamMarkMin = size_t{16} * 1024;

// All streams of a connection together may queue this multiple of config::Http::buffer_high.
constexpr size_t kConnectionMarks = 4;

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
  if (listener_.log) started_us_ = log_time_us();
}

Exchange::~Exchange() {
  if (password_check_) password_check_->forget();
}

const config::Http& Exchange::config() const { return listener_.config; }
uint64_t Exchange::now_ms() const { return worker_.worker().now_ms(); }
void Exchange::note_activity() { last_active_ms_ = now_ms(); }

size_t Exchange::high_mark() const {
  const size_t of_connection = config().buffer_high.bytes * kConnectionMarks / (session_ ? session_->streams() : 1);
  return worker_.worker().share(std::min<size_t>(config().buffer_high.bytes, std::max(of_connection, kStreamMarkMin)));
}

// ---- Stream events ----

// Each of these may destroy the exchange.

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
  response_trailers(std::move(trailers));
}

void Exchange::on_reset(HttpStream& stream, ResetReason reason) {
  &stream == client_ ? client_reset(reason) : upstream_reset(reason);
}

void Exchange::on_drained(HttpStream& stream) {
  note_activity();
  if (&stream == client_) {
    last_response_ms_ = last_active_ms_;
    session_->note_progress();
    continue_compressing();
    resume_response();
  } else {
    last_passed_ms_ = last_active_ms_;
    if (waiting_request_) return continue_request();
    if (request_paused_ && client_ && upstream_->queued() <= high_mark() / 2) {
      last_request_ms_ = last_active_ms_;
      resume_request();
    }
  }
  settle();
}

// ---- The request ----

void Exchange::take_request(bool end) {
  request_ended_ = end;
  grpc_ = is_grpc(request_);
  watch();
  if (listener_.identifies && !find_identity()) return fail(HttpEnd::kBadRequest);
  const bool connect = request_.method() == "CONNECT" && request_.protocol().empty();
  tunnel_ = connect || !request_.protocol().empty();
  if (connect ? !config().allow_connect : tunnel_ && !takes_protocol()) return fail(HttpEnd::kNotAllowed);
  if (tunnel_ && end) return fail(HttpEnd::kBadRequest);  // A tunnel that has ended before it began.
  hostless_ = request_.authority().empty();
  if (hostless_ && session_->http2()) return fail(HttpEnd::kBadRequest);  // Only HTTP/1.0 may omit it.
  // The scheme of the connection counts, not the one that the client sent.
  if (request_.scheme() != scheme() && !connect &&
      !request_.set(worker_.worker().pool(), Head::Part::kScheme, scheme())) {
    return fail(HttpEnd::kBadRequest);
  }
  if (session_->http2()) {
    // The HTTP/1.1 codec has checked these already.
    if (!is_method_to_forward(request_.method())) return fail(HttpEnd::kNotAllowed);
    if (!listener_.http1.allow_underscores && has_underscore(request_.fields)) return fail(HttpEnd::kBadRequest);
    if (!take_expectations()) {
      end_ = HttpEnd::kBadRequest;
      return respond_error(417, "the expectation is not supported");
    }
  }
  if (!connect && !make_canonical()) return fail(HttpEnd::kBadPath);
  for (const std::string& name : listener_.reserved_headers) request_.fields.remove(name);
  target_ = listener_.router.route(facts());
  if (target_) route_ = target_->route;
  if (!admit()) return;
  if (!target_) return fail(HttpEnd::kNoRoute);
  serve();
}

// Does what the route specifies.
void Exchange::serve() {
  if (route_->redirect) return redirect(*route_->redirect);
  if (const auto& fixed = route_->respond) {
    const auto status = static_cast<uint16_t>(fixed->status);
    if (would_agree_to_tunnel(status)) return fail(HttpEnd::kNotAllowed);
    return respond(status, fixed->content_type, fixed->body);
  }
  if (!count_hop()) return;
  to_ = &worker_.upstream(target_->choose(worker_.random()));
  uint64_t declared_bytes = 0;  // 0 without a Content-Length. The codecs have checked that it is a number.
  if (!absl::SimpleAtoi(request_.fields.value("content-length"), &declared_bytes)) declared_bytes = 0;
  if (is_body_too_large(std::max(declared_bytes, request_bytes_))) return fail(HttpEnd::kBodyTooLarge);
  find_deadline();
  choose_coding();
  if (!change_request()) return fail(HttpEnd::kBadRequest);
  watch();  // The upstream adds timeouts.
  if (target_->mirror != HttpTarget::kNone) begin_mirror();
  to_->retry_budget().note_request(now_ms());
  collect_request() ? continue_request() : send_request();
}

// Whether an extended CONNECT (RFC 8441) is accepted. An HTTP/1.1 upgrade is represented as one here.
bool Exchange::takes_protocol() const { return config().websocket && request_.protocol() == "websocket"; }

void Exchange::begin_mirror() {
  if (tunnel_ || worker_.random().below(100) >= route_->mirror->percent) return;
  const bool body_ends = request_ended_ && held_trailers_.empty();
  MirroredRequest::begin(worker_, worker_.upstream(target_->mirror), request_, body_ends && held_.empty(), mirror_);
  if (mirror_ && !held_.empty()) mirror_->send_body(held_.clone(), body_ends);
  if (mirror_ && !held_trailers_.empty()) mirror_->send_trailers(held_trailers_);
}

// Gives the path its canonical form, which routes, logs and upstreams see. Returns false if it has none.
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

std::string_view Exchange::original_path() const {
  return original_path_.size > 0 ? request_.fields.text(original_path_) : request_.path();
}
std::string_view Exchange::original_authority() const {
  return original_authority_.size > 0 || hostless_ ? request_.fields.text(original_authority_) : request_.authority();
}

RequestAttributes Exchange::facts() const {
  static thread_local std::array<char, Fields::kMaxBytes> scratch;
  const std::string_view target = original_path(), authority = original_authority();
  const size_t path_bytes = std::min(target.find('?'), target.size());
  return {.host = canonical_host(authority, scratch),
          .path = target.substr(0, path_bytes),
          .query = target.substr(std::min(path_bytes + 1, target.size())),
          .authority = authority,
          .method = request_.method(),
          .scheme = request_.scheme(),
          .fields = &request_.fields,
          .client = &client_ip(),
          .agreed = session_->agreed(),
          .listener = listener_.listener.name,
          .request_id = request_.fields.text(identity_.request_id),
          .trace_id = request_.fields.text(identity_.trace_id),
          .http2 = session_->http2()};
}

bool Exchange::is_body_too_large(uint64_t bytes) const {
  const uint64_t limit = route_->max_body.value_or(config().max_body).bytes;
  return limit > 0 && bytes > limit && !tunnel_;
}

// Changes the request as the upstream is to see it. Returns false if the head has no room.
bool Exchange::change_request() {
  ChunkPool& pool = worker_.worker().pool();
  if (route_->rewrite && !rewrite(*route_->rewrite)) return false;
  if (!add_origin_fields()) return false;
  // A server needs a host. A request without one gets the upstream's name, as with nginx.
  if (request_.authority().empty() && !request_.set(pool, Head::Part::kAuthority, to_->config().name)) return false;
  const auto facts_of = [this] { return facts(); };
  return change_fields(pool, config().request_headers, facts_of, request_.fields) &&
         change_fields(pool, route_->request_headers, facts_of, request_.fields);
}

bool Exchange::rewrite(const config::Rewrite& rewrite) {
  ChunkPool& pool = worker_.worker().pool();
  if (!rewrite.host.empty() && !(request_.fields.keep(pool, request_.authority(), original_authority_) &&
                                 request_.set(pool, Head::Part::kAuthority, rewrite.host))) {
    return false;
  }
  if (request_.path().empty() || rewrite.leaves_path()) return true;
  if (!request_.fields.keep(pool, request_.path(), original_path_)) return false;
  static thread_local std::array<char, Fields::kMaxBytes> scratch;
  const RequestAttributes original = facts();
  const std::optional<std::string_view> path = changed_path(rewrite, route_->match, original, config().paths, scratch);
  return path && request_.set(pool, Head::Part::kPath, *path, request_.path().substr(original.path.size()));
}

void Exchange::send_request() {
  waiting_since_ms_ = now_ms();
  call();
}

void Exchange::on_upstream(UpstreamConnection& connection, HttpStream& stream) {
  take_upstream(connection, stream);
  ++sent_;
  used_connection_ = connection.used();
  if (!request_.protocol().empty() && !connection.accepts_protocols()) return fail(HttpEnd::kUpstreamRefused);
  waiting_since_ms_ = last_passed_ms_ = now_ms();
  if (!add_content_length()) return fail(HttpEnd::kBadRequest);
  if (waiting_request_) {
    upstream_->send_head(request_, false);
    return continue_request();
  }
  const bool whole = request_ended_ && !tunnel_;
  const bool end = whole && held_.empty() && held_trailers_.empty();
  upstream_->send_head(request_, end);
  if (end) return;
  const bool body_ends = request_ended_ && held_trailers_.empty();
  if (!held_.empty() || body_ends) {
    pass_body(std::move(held_), body_ends);
  }
  if (!held_trailers_.empty()) pass_trailers(std::exchange(held_trailers_, {}));
  if (request_paused_) resume_request();
}

void Exchange::on_no_upstream(HttpEnd why) {
  waiting_ = false;
  hedge_ ? switch_to_hedge() : fail(why);
}

void Exchange::request_body(Buffer&& body, bool end) {
  request_bytes_ += body.size();
  last_request_ms_ = last_active_ms_;
  request_ended_ = request_ended_ || end;
  if (to_ && !response_begun_ && is_body_too_large(request_bytes_)) {
    body.clear();
    return fail(HttpEnd::kBodyTooLarge);
  }
  if (mirror_) mirror_->send_body(body.clone(), end);
  if (waiting_request_) {
    waiting_request_->add(std::move(body));
    return continue_request();
  }
  if (upstream_) {
    waiting_since_ms_ = last_active_ms_;
    if (upstream_->queued() == 0) last_passed_ms_ = last_active_ms_;
    pass_body(std::move(body), end);
    connection_->wake();
    if (!end && upstream_->queued() >= high_mark()) pause_request();
  } else if (awaits_upstream() || password_check_) {
    held_.append(std::move(body));
    if (!end && held_.size() >= high_mark()) pause_request();
  } else {
    body.clear();  // The response was sent already.
  }
  settle();
}

void Exchange::pause_request() {
  request_paused_ = true;
  client_->set_reading(false);
}

void Exchange::resume_request() {
  request_paused_ = false;
  client_->set_reading(true);
  session_->wake();
}

void Exchange::request_trailers(Fields&& trailers) {
  if (!listener_.http1.allow_underscores && !response_ended_ && has_underscore(trailers)) {
    request_ended_ = true;
    return fail(HttpEnd::kBadRequest);
  }
  drop_reserved(trailers);
  if (trailers.empty()) return request_body(Buffer(), true);
  request_ended_ = true;
  if (mirror_) mirror_->send_trailers(trailers);
  if (waiting_request_) {
    held_trailers_ = std::move(trailers);
    return continue_request();
  }
  if (upstream_) {
    waiting_since_ms_ = last_active_ms_;
    pass_trailers(std::move(trailers));
    connection_->wake();
  } else if (awaits_upstream() || password_check_) {
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
  to_->state().report_response(endpoint_, head.status, now_ms());
  if (head.status < 500) to_->retry_budget().note_response(now_ms());
  if (retry_instead_of(head, end)) return;
  end_hedge();
  if (by_hedge_) to_->counters().hedges_won.add();
  response_begun_ = true;
  kept_.clear();
  status_ = head.status;
  if (listener_.log) response_head_us_ = std::max<uint64_t>(log_time_us() - started_us_, 1);
  if (tunnel_) {
    // In HTTP/2, every 2xx accepts the tunnel, so this response cannot be passed to an HTTP/2 client.
    if (head.ignores_upgrade && session_->http2()) {
      response_begun_ = false;
      return fail(HttpEnd::kUpstreamRefused);
    }
    tunnel_agreed_ = head.status / 100 == 2 && !head.ignores_upgrade;
    if (tunnel_agreed_) {
      if (!session_->http2() && !request_.protocol().empty()) status_ = 101;  // The status that the client receives.
      listener_.counters.tunnels.add();
      watch();  // A tunnel has its own idle timeout.
    }
    request_ended_ = request_ended_ || !tunnel_agreed_;
  }
  last_response_ms_ = last_active_ms_;
  response_ended_ = end;
  const bool http2 = to_->config().protocol == config::Protocol::kHttp2;
  if (!add_date(head) || !add_via(worker_.worker().pool(), http2 ? listener_.via_http2 : listener_.via_http1, head) ||
      (to_->config().sticky && !to_->keep_client(facts(), endpoint_, head.fields)) || !change_response(head) ||
      (negotiates_coding_ && !begin_compression(head, end))) {
    return fail(HttpEnd::kUpstreamMalformed);
  }
  if (!listener_.log) request_.clear();
  client_->send_head(head, end);
  session_->wake();
  settle();
}

void Exchange::response_body(Buffer&& body, bool end) {
  response_ended_ = end;
  if (must_wait(body)) {
    keep_for_client(std::move(body));
  } else {
    pass_response(std::move(body), end);
    if (!end) pause_response();
  }
  settle();
}

void Exchange::response_trailers(Fields&& trailers) {
  response_ended_ = true;
  if (waiting_response_) {
    waiting_response_->put_trailers(std::move(trailers));
    continue_response();
  } else {
    pass_response_trailers(std::move(trailers));
  }
  settle();
}

void Exchange::pass_response(Buffer&& body, bool end) {
  if (compression_) return compress(std::move(body), end);
  response_bytes_ += body.size();
  if (client_->queued() == 0) last_response_ms_ = now_ms();
  client_->send_body(std::move(body), end);
  session_->wake();
}

void Exchange::pass_response_trailers(Fields&& trailers) {
  if (compression_) {
    compression_->trailers = std::move(trailers);
    return compress(Buffer(), true);
  }
  client_->send_trailers(trailers);
  session_->wake();
}

// Bytes that wait for the client, compressed or not.
size_t Exchange::response_queued() const {
  return client_->queued() + (compression_ ? compression_->waiting.size() : 0);
}

void Exchange::pause_response() {
  if (keeps_response() || response_queued() < high_mark()) return;
  response_paused_ = true;
  upstream_->set_reading(false);
}

void Exchange::resume_response() {
  if (waiting_response_) return continue_response();
  if (!response_paused_ || !upstream_ || response_queued() > high_mark() / 2) return;
  response_paused_ = false;
  upstream_->set_reading(true);
  connection_->wake();
}

// ---- The end ----

void Exchange::client_reset(ResetReason reason) {
  if (!response_ended_ || !client_->sent_all()) {
    if (!response_cut_) end_ = session_->shutting_down() ? HttpEnd::kShutdown : reset_rule(Side::kClient, reason).end;
  }
  stop_waiting();
  end_hedge();
  if (upstream_) upstream_->reset(ResetReason::kCancelled);
  leave_upstream();
  release_client();
  destroy();
}

void Exchange::release_client() {
  finish();
  std::exchange(client_, nullptr)->release();
  std::exchange(session_, nullptr)->wake();
}

// Releases the streams that have ended, and destroys the exchange with the last of them.
void Exchange::settle() {
  const bool tunnel = tunnel_agreed_;
  if (upstream_ && response_ended_ && (!tunnel || (request_ended_ && upstream_->sent_all()))) leave_upstream();
  if (client_ && response_cut_) {
    if (holds_response()) return;
    client_->reset(upstream_reason_);  // The truncated response must not look complete.
    release_client();
  } else if (client_ && response_ended_ && client_->sent_all() && (!tunnel || (request_ended_ && !upstream_))) {
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
  if (mirror_) mirror_->cut();
  HttpCounters& counters = listener_.counters;
  counters.ended[static_cast<size_t>(end_)].add();
  if (status_ >= 100) counters.statuses[status_ / 100].add();
  counters.request_bytes.add(request_bytes_);
  counters.response_bytes.add(response_bytes_);
  if (listener_.log) log();
}

}  // namespace sluice
