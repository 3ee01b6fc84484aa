#include "proxy/http/proxy/stream_pair.h"

#include <algorithm>
#include <utility>

#include "net/worker.h"
#include "proxy/config/model/units.h"
#include "proxy/http/proxy/fault.h"
#include "proxy/http/proxy/http_listener.h"
#include "proxy/http/proxy/http_session.h"
#include "proxy/http/proxy/http_worker.h"
#include "proxy/http/proxy/request_rules.h"
#include "proxy/http/proxy/upstream_connection.h"
#include "proxy/http/proxy/upstream_pool.h"

namespace sluice {

namespace {

// The timeouts are checked at this interval while data moves or waits.
constexpr uint64_t kCheckPairMs = 1000;

using config::milliseconds;

}  // namespace

void StreamPairState::write(StateWriter& out) const {
  out.u64(quiet_ms);
  out.u64(left_ms);
  out.u64(idle_timeout_ms);
  out.u8(request_ended);
  out.u8(tunnel);
}

StreamPairState StreamPairState::read(StateReader& in) {
  StreamPairState state;
  state.quiet_ms = in.u64();
  state.left_ms = in.u64();
  state.idle_timeout_ms = in.u64();
  state.request_ended = in.u8() != 0;
  state.tunnel = in.u8() != 0;
  return state;
}

StreamPair::StreamPair(HttpSession& session, HttpStream& client, UpstreamConnection& connection, HttpStream& upstream,
                       const StreamPairState& state)
    : http_(session.listener().http),
      session_(&session),
      client_(&client),
      connection_(&connection),
      upstream_(&upstream),
      timer_([](void* self) { static_cast<StreamPair*>(self)->on_timer(); }, this),
      due_ms_(state.left_ms > StreamPairState::kNever - now_ms() ? StreamPairState::kNever : now_ms() + state.left_ms),
      idle_timeout_ms_(state.idle_timeout_ms),
      active_ms_(now_ms() - std::min(state.quiet_ms, now_ms())),
      response_ms_(now_ms()),
      tunnel_(state.tunnel),
      request_ended_(state.request_ended) {
  http_.tunnel_began();
  client_->hand_over(*this);
  upstream_->hand_over(*this);
  connection_->add_user();
  connection_->pool().state().endpoint(connection_->endpoint()).active.fetch_add(1, std::memory_order_relaxed);
}

StreamPair::~StreamPair() { http_.tunnel_ended(); }

void StreamPair::start() {
  http_.worker().timers().arm(timer_, now_ms() + kCheckPairMs);
  regulate();
}

void StreamPair::abandon() {
  leave_connection();
  client_ = nullptr;
  session_ = nullptr;
  maybe_retire();
}

uint64_t StreamPair::now_ms() const { return http_.worker().now_ms(); }

void StreamPair::note_activity() {
  active_ms_ = now_ms();
  if (std::exchange(quiet_, false)) http_.worker().timers().arm(timer_, active_ms_ + kCheckPairMs);
}

// How much may be queued for one side.
size_t StreamPair::high_mark() const { return http_.worker().share(session_->listener().config->buffer_high.bytes); }

// ---- The bytes ----

void StreamPair::on_body(HttpStream& stream, Buffer&& body, bool end) {
  note_activity();
  if (&stream == client_) {
    request_ended_ = request_ended_ || end;
    if (!upstream_) return body.clear();  // The response is complete, or was cut.
    upstream_->send_body(std::move(body), end);
    connection_->wake();
  } else {
    response_ended_ = end;
    client_->send_body(std::move(body), end);
    session_->wake();
  }
  regulate();
  settle();
}

void StreamPair::on_trailers(HttpStream& stream, Fields&& trailers) {
  if (&stream == client_) {
    if (!admit_trailers(session_->listener(), trailers)) return fail();
    if (trailers.empty() || !upstream_) return on_body(stream, Buffer(), true);
    note_activity();
    request_ended_ = true;
    upstream_->send_trailers(trailers);
    connection_->wake();
  } else {
    note_activity();
    response_ended_ = true;
    client_->send_trailers(trailers);
    session_->wake();
  }
  settle();
}

void StreamPair::on_broken(HttpStream& stream, const BrokenMessage& message) {
  if (&stream == client_) session_->log_broken(message);
}

void StreamPair::on_drained(HttpStream& stream) {
  note_activity();
  if (&stream == client_) {
    response_ms_ = active_ms_;
    session_->note_progress();
  }
  regulate();
  settle();
}

// A side that takes no more data makes the other side stop reading. It goes on once half of the mark is free.
void StreamPair::regulate() {
  if (!client_ || !upstream_) return;
  const size_t mark = high_mark();
  const auto must_pause = [mark](bool paused, size_t queued) { return paused ? queued > mark / 2 : queued >= mark; };
  if (!response_ended_ && must_pause(upstream_paused_, client_->queued()) != upstream_paused_) {
    upstream_paused_ = !upstream_paused_;
    upstream_->set_reading(!upstream_paused_);
    connection_->wake();
  }
  if (!request_ended_ && must_pause(client_paused_, upstream_->queued()) != client_paused_) {
    client_paused_ = !client_paused_;
    client_->set_reading(!client_paused_);
    session_->wake();
  }
}

// ---- Time ----

void StreamPair::on_timer() {
  if (session_) session_->stay();  // It may end now.
  if (!client_) return;            // That has ended it.
  const uint64_t now = now_ms();
  if (is_overdue(now)) return fail();
  const bool waits = client_->queued() > 0 || (upstream_ && upstream_->queued() > 0);
  uint64_t next = now + kCheckPairMs;
  if (!waits && now >= active_ms_ + kCheckPairMs) {
    quiet_ = true;
    next = std::min(due_ms_, idle_timeout_ms_ > 0 ? active_ms_ + idle_timeout_ms_ : StreamPairState::kNever);
    if (next == StreamPairState::kNever) return;
  }
  http_.worker().timers().arm(timer_, std::min(next, due_ms_));
}

bool StreamPair::is_overdue(uint64_t now) const {
  const config::Http& config = *session_->listener().config;
  const auto since = [now](uint64_t begin, uint64_t limit_ms) { return limit_ms > 0 && now >= begin + limit_ms; };
  if (now >= due_ms_ || since(active_ms_, idle_timeout_ms_)) return true;
  if (client_->queued() == 0) return false;
  // Progress of other streams does not count if the client withholds the window of this one.
  const uint64_t progress = client_->blocked() ? response_ms_ : std::max(response_ms_, session_->last_progress_ms());
  // While the socket is full, the session watches for progress.
  if (!tunnel_ && !session_->has_queued() && since(progress, milliseconds(config.send_timeout))) return true;
  return since(progress, milliseconds(config.stuck_timeout)) && session_->should_shed_load();
}

// ---- The end ----

void StreamPair::on_reset(HttpStream& stream, ResetReason reason) {
  if (&stream == client_) {
    if (upstream_) upstream_->reset(ResetReason::kCancelled);
    release_upstream();
    release_client();
    return maybe_retire();
  }
  const ResetRule rule = reset_rule(Side::kUpstream, reason);
  // While the client still owes a part of the request, the endpoint may have given up on the client.
  const bool known = rule.end != HttpEnd::kUpstreamReset || !awaits_request();
  if (!tunnel_ && !response_ended_ && known && rule.fault == Fault::kEndpoint) {
    connection_->pool().state().report_error(connection_->endpoint(), now_ms(), http_end_name(rule.end));
  }
  release_upstream();
  if (!response_ended_ || tunnel_) {
    cut_ = true;
    reason_ = reason;
    request_ended_ = true;
  }
  settle();
}

void StreamPair::fail() {
  if (upstream_) upstream_->reset(ResetReason::kCancelled);
  release_upstream();
  client_->reset(ResetReason::kInternal);
  release_client();
  maybe_retire();
}

// Releases the streams that have ended.
void StreamPair::settle() {
  if (upstream_ && response_ended_ && (!tunnel_ || (request_ended_ && upstream_->sent_all()))) release_upstream();
  if (client_ && cut_) {
    if (client_->queued() > 0) return;
    client_->reset(reason_);  // The truncated response must not look complete.
    release_client();
  } else if (client_ && response_ended_ && client_->sent_all() && (!tunnel_ || (request_ended_ && !upstream_))) {
    release_client();
  }
  maybe_retire();
}

void StreamPair::release_client() {
  std::exchange(client_, nullptr)->release();
  std::exchange(session_, nullptr)->wake();
}

void StreamPair::release_upstream() {
  if (!upstream_) return;
  upstream_->release();
  leave_connection();
}

void StreamPair::leave_connection() {
  if (!connection_) return;
  upstream_ = nullptr;
  connection_->pool().state().endpoint(connection_->endpoint()).active.fetch_sub(1, std::memory_order_relaxed);
  std::exchange(connection_, nullptr)->detach();
}

// At the end of the turn: those who called it may still be at work.
void StreamPair::maybe_retire() {
  if (client_ || upstream_ || std::exchange(retired_, true)) return;
  timer_.cancel();
  http_.worker().defer([](void* self) { delete static_cast<StreamPair*>(self); }, this);
}

// ---- The next move ----

bool StreamPair::can_move() const { return client_ && upstream_ && !response_ended_ && !cut_; }

StreamPairState StreamPair::pair_state() const {
  const uint64_t now = now_ms();
  StreamPairState state{.quiet_ms = now - active_ms_,
                        .idle_timeout_ms = idle_timeout_ms_,
                        .request_ended = request_ended_,
                        .tunnel = tunnel_};
  if (due_ms_ != StreamPairState::kNever) state.left_ms = due_ms_ - std::min(now, due_ms_);
  return state;
}

void StreamPair::depart() { abandon(); }

Transport& StreamPair::endpoint_transport() { return connection_->transport(); }

StreamReceiver::Destination StreamPair::destination() const {
  return connection_ ? connection_->destination() : Destination();
}

MovingSession::Endpoint StreamPair::endpoint_names() const { return connection_->endpoint_names(); }

}  // namespace sluice
