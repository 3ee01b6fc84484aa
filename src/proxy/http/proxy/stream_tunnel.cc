#include "proxy/http/proxy/stream_tunnel.h"

#include <algorithm>
#include <utility>

#include "alts_like/record_state.h"
#include "net/worker.h"
#include "proxy/config/model/units.h"
#include "proxy/http/proxy/http_listener.h"
#include "proxy/http/proxy/http_session.h"
#include "proxy/http/proxy/http_worker.h"

namespace sluice {

namespace {

// The connection is checked once after this long without activity.
constexpr uint64_t kCheckAfterMs = 1000;

using config::milliseconds;

}  // namespace

StreamTunnel::StreamTunnel(HttpSession& session, HttpStream& client, std::shared_ptr<WorkerUpstream> upstream,
                           uint32_t slot)
    : http_(session.listener().http),
      session_(&session),
      client_(&client),
      upstream_(std::move(upstream)),
      slot_(slot),
      endpoint_(http_.worker(), *this),
      timer_([](void* self) { static_cast<StreamTunnel*>(self)->on_timer(); }, this),
      started_ms_(now_ms()),
      active_ms_(started_ms_) {
  http_.tunnel_began();
  client_->hand_over(*this);
  upstream_->state->endpoint(slot_).active.fetch_add(1, std::memory_order_relaxed);
  upstream_->balancer.view().hold(slot_);
  counters().open.add();
  counters().requests_active.add();
}

StreamTunnel::~StreamTunnel() {
  leave_endpoint();
  http_.tunnel_ended();
}

void StreamTunnel::leave_endpoint() {
  if (!std::exchange(holds_endpoint_, false)) return;
  counters().open.subtract();
  counters().requests_active.subtract();
  upstream_->state->endpoint(slot_).active.fetch_sub(1, std::memory_order_relaxed);
  upstream_->balancer.view().let_go(slot_);
}

bool StreamTunnel::read_state(int fd, StateReader& in) {
  const ForwardingState state = ForwardingState::read(in);
  started_ms_ -= std::min(state.age_ms, started_ms_);
  active_ms_ -= std::min(state.quiet_ms, active_ms_);
  return endpoint_.restore(fd, in);
}

void StreamTunnel::start() {
  arm_timer(now_ms() + kCheckAfterMs);
  read_client();
  if (client_->queued() < high_mark()) endpoint_.start_reading();
}

void StreamTunnel::abandon() {
  client_ = nullptr;
  session_ = nullptr;
  endpoint_.abort();
  maybe_destroy();
}

uint64_t StreamTunnel::now_ms() const { return http_.worker().now_ms(); }

void StreamTunnel::note_activity() {
  active_ms_ = now_ms();
  if (std::exchange(quiet_, false)) arm_timer(active_ms_ + kCheckAfterMs);
}

void StreamTunnel::arm_timer(uint64_t due_ms) { http_.worker().timers().arm(timer_, due_ms); }

// How much may be queued for one side: see HttpSession::send_mark().
size_t StreamTunnel::high_mark() const {
  return session_ ? http_.worker().share(session_->listener().config->buffer_high.bytes) : 0;
}

size_t StreamTunnel::receive_credit(Transport&) {
  const size_t queued = client_ ? client_->queued() : 0, high = high_mark();
  return high > queued ? high - queued : 0;
}

// ---- The bytes ----

void StreamTunnel::on_body(HttpStream&, Buffer&& body, bool end) {
  note_activity();
  if (failed_) return body.clear();
  counters().bytes_out.add(body.size());
  if (!body.empty()) endpoint_.send(std::move(body));
  if (end) {
    client_ended_ = true;
    endpoint_.shutdown_write();
    return maybe_finished();
  }
  if (endpoint_.queued() >= high_mark()) client_->set_reading(false);
}

// A tunnel has none; they are its end.
void StreamTunnel::on_trailers(HttpStream& stream, Fields&&) { on_body(stream, Buffer(), true); }

void StreamTunnel::on_data(Transport&, Buffer&& data) {
  note_activity();
  counters().bytes_in.add(data.size());
  if (!client_ || failed_) return data.clear();
  client_->send_body(std::move(data), false);
  session_->wake();
  if (client_->queued() >= high_mark()) endpoint_.stop_reading();
}

void StreamTunnel::on_part(Transport&) { note_activity(); }

void StreamTunnel::on_drained(HttpStream&) {
  note_activity();
  session_->note_progress();
  if (failed_) {
    if (client_->queued() == 0) end_client(ResetReason::kConnectionLost);
    return;
  }
  if (client_->queued() <= high_mark() / 2) endpoint_.start_reading();
  maybe_finished();
}

void StreamTunnel::on_sent(Transport&) {
  note_activity();
  if (client_ && !client_ended_ && !failed_) read_client();
  maybe_finished();
}

void StreamTunnel::read_client() {
  if (endpoint_.queued() > high_mark() / 2) return;
  client_->set_reading(true);
  session_->wake();
}

// ---- The end ----

void StreamTunnel::on_end(Transport&, bool truncated) {
  if (moving_) session_->stay();
  if (truncated) {
    counters().tls_truncated.add();
    return endpoint_failed();
  }
  if (!client_ || failed_) return;
  endpoint_ended_ = true;
  client_->send_body(Buffer(), true);
  session_->wake();
  maybe_finished();
}

void StreamTunnel::on_error(Transport&, int) {
  if (moving_) session_->stay();
  endpoint_failed();
}

void StreamTunnel::on_record_error(Transport&, std::string_view) {
  if (moving_) session_->stay();
  endpoint_failed();
}

// The client gets what arrived before, and then a reset, so that it does not look complete.
void StreamTunnel::endpoint_failed() {
  failed_ = true;
  endpoint_.abort();
  if (client_ && client_->queued() == 0) end_client(ResetReason::kConnectionLost);
}

void StreamTunnel::on_reset(HttpStream&, ResetReason) {
  moving_ = false;
  release_client();
  endpoint_.abort();
  maybe_destroy();
}

void StreamTunnel::end_client(ResetReason reason) {
  client_->reset(reason);
  release_client();
  endpoint_.abort();
  maybe_destroy();
}

void StreamTunnel::release_client() {
  timer_.cancel();
  std::exchange(client_, nullptr)->release();
  std::exchange(session_, nullptr)->wake();
}

// Once both ends of stream have been passed on, nothing can follow.
void StreamTunnel::maybe_finished() {
  if (!client_ || !client_ended_ || !endpoint_ended_ || !client_->sent_all() || !endpoint_.write_shut()) return;
  release_client();
  endpoint_.close();
  maybe_destroy();
}

void StreamTunnel::on_closed(Transport&) { maybe_destroy(); }

// At the end of the turn: those who called it may still be at work.
void StreamTunnel::maybe_destroy() {
  if (client_ || endpoint_.busy() || std::exchange(destroyed_, true)) return;
  timer_.cancel();
  http_.worker().defer([](void* self) { delete static_cast<StreamTunnel*>(self); }, this);
}

void StreamTunnel::on_timer() {
  if (moving_) session_->stay();
  const uint64_t now = now_ms();
  const config::Http& config = *session_->listener().config;
  const uint64_t idle_ms = milliseconds(config.tunnel_timeout), stuck_ms = milliseconds(config.stuck_timeout);
  if (idle_ms > 0 && now >= active_ms_ + idle_ms) return end_client(ResetReason::kTimeout);
  const bool queued = client_->queued() > 0 || endpoint_.queued() > 0;
  if (queued && stuck_ms > 0 && now >= active_ms_ + stuck_ms && session_->should_shed_load()) {
    return end_client(ResetReason::kCancelled);
  }
  if (now < active_ms_ + kCheckAfterMs) return arm_timer(active_ms_ + kCheckAfterMs);
  quiet_ = true;
  // Finds a reset that no completion has reported.
  if (!failed_ && !endpoint_.park()) {
    endpoint_failed();
    if (!client_) return;
  }
  if (queued) return arm_timer(now + kCheckAfterMs);
  if (idle_ms > 0) arm_timer(active_ms_ + idle_ms);
}

// ---- The next move ----

bool StreamTunnel::can_move() const { return client_ && !client_ended_ && !endpoint_ended_ && !failed_; }

void StreamTunnel::begin_moving() {
  moving_ = true;
  endpoint_.detach();
}

void StreamTunnel::on_detached(Transport&) {
  if (moving_ && session_) session_->continue_moving();
}

void StreamTunnel::stay() {
  if (std::exchange(moving_, false)) endpoint_.reattach();
}

MovingSession::Endpoint StreamTunnel::endpoint_names() const {
  return {upstream_->state->config().name, upstream_->state->address(slot_).text()};
}

StreamReceiver::Destination StreamTunnel::destination() const {
  if (!holds_endpoint_) return {};
  return {upstream_->state->config().name, upstream_->state->slots().text(slot_)};
}

ForwardingState StreamTunnel::forwarding_state() const {
  return {.age_ms = now_ms() - started_ms_, .quiet_ms = now_ms() - active_ms_, .source = {}};
}

void StreamTunnel::depart() {
  timer_.cancel();
  client_ = nullptr;
  session_ = nullptr;
  leave_endpoint();
  maybe_destroy();
}

}  // namespace sluice
