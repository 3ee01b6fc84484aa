// How a session ends: at once, or when the side that is left has taken what the other one sent before it failed.

#include <algorithm>
#include <cstdint>
#include <utility>

#include "net/worker.h"
#include "proxy/config/model/units.h"
#include "proxy/l4/l4_session.h"
#include "proxy/listener/client_acceptor.h"
#include "sluice/internal/check.h"

namespace sluice {

namespace {

// Data that arrived before one side failed is dropped when the other side takes none of it for this long.
constexpr uint64_t kDrainMs = 30'000;
// How often acknowledgments are polled: first at this interval, then less often the longer there have been none.
constexpr uint64_t kDrainPollMs = 20;
constexpr uint64_t kDrainPollShare = 4;

}  // namespace

bool L4Session::shut_down() {
  const bool was_open = state_ != State::kClosing;
  if (state_ == State::kSetup) {
    client_.set_owner(*this);
    setup_.reset();
  }
  finish(SessionEnd::kShutdown);
  return was_open;
}

void L4Session::finish(SessionEnd end) {
  if (state_ == State::kClosing) return;
  // Close without a reset: a reset would overtake the alert.
  if (state_ == State::kDraining && drain_ == Drain::kAlert) failed_side().close();
  state_ = State::kClosing;
  count_end(end);
  log_end(session_end_name(end));
  timer_.cancel();
  leave_endpoint();
  // Unless both sides have finished, both see a reset. An orderly close would make truncated data look complete and, if
  // no endpoint could be reached, make no data at all look like an empty response.
  const bool cut = end != SessionEnd::kFinished;
  cut ? client_.abort() : client_.close();
  cut ? upstream_.abort() : upstream_.close();
}

void L4Session::count_end(SessionEnd end) {
  if (is_tunnel()) end = note_end(end);
  counters().ended[static_cast<size_t>(end)].add();
}

// A reset drops what the kernel has not delivered yet, so it waits until the other side has received the data from
// before the failure. For example, an origin that refuses early sends its response, and then resets because of the part
// of the request that it did not read.
void L4Session::begin_draining(Transport& failed, SessionEnd end, Drain how) {
  SLUICE_DCHECK(state_ == State::kForwarding || (state_ == State::kSetup && how == Drain::kAlert));
  state_ = State::kDraining;
  drain_ = how;
  client_failed_ = is_client(failed);
  end_ = end;
  last_active_ms_ = acceptor_.worker().now_ms();
  other(failed).stop_reading();
  if (how == Drain::kAlert) {
    failed.shutdown_write(/*cut=*/true);
    failed.start_reading();
    if (!other(failed).owes()) other(failed).abort();
    arm_timer(last_active_ms_ + kAlertMs);
  }
  continue_draining();
}

void L4Session::continue_draining() {
  Transport &failed = failed_side(), &to = other(failed);
  switch (drain_) {
    case Drain::kAlert:
      // Wait for the failed side's end of stream, or the timer. If it ended before we did, nothing is left that could
      // cause a reset.
      if (!failed.input_over() || !failed.write_shut()) return;
      failed.close();
      drain_rest();
      break;
    case Drain::kQueue:
      break;
    case Drain::kRest:
      if (!failed.open()) break;
      if (failed.input_over() || !failed.gone()) {
        failed.abort();
      } else if (to.queued() < high_mark()) {
        failed.start_reading();
      }
      break;
  }
  const bool more_comes = drain_ == Drain::kRest && failed.open();
  if (!more_comes && !to.owes() && !(drain_ == Drain::kQueue && failed.owes())) return finish(end_);
  const uint64_t now = acceptor_.worker().now_ms();
  arm_timer(now + std::max((now - last_active_ms_) / kDrainPollShare, kDrainPollMs));
}

void L4Session::drain_rest() {
  SLUICE_DCHECK(state_ == State::kDraining && drain_ != Drain::kRest);
  drain_ = Drain::kRest;
}

void L4Session::failed_while_draining(Transport& transport) {
  if (&transport != &failed_side()) return finish(end_);  // The side that should receive the rest has failed too.
  if (drain_ != Drain::kRest) {
    drain_rest();
    transport.abort();
  }
  continue_draining();
}

void L4Session::on_drain_timer() {
  const uint64_t now = acceptor_.worker().now_ms();
  if (drain_ == Drain::kAlert) {
    failed_side().close();
    drain_rest();
  }
  // An armed receive may never report the end of stream (Socket::failed). All completions of this turn have been
  // handled.
  if (drain_ == Drain::kRest && failed_side().open() && failed_side().unread() == 0) failed_side().abort();
  const auto acknowledged = static_cast<uint32_t>(client_.socket().acknowledged() + upstream_.socket().acknowledged());
  if (std::exchange(acknowledged_, acknowledged) != acknowledged) last_active_ms_ = now;
  const uint64_t stuck_ms = config::milliseconds(acceptor_.tcp().stuck_timeout);
  const uint64_t max_ms = config::milliseconds(acceptor_.tcp().max_duration);
  const bool over = now >= last_active_ms_ + kDrainMs || (max_ms > 0 && now >= started_ms_ + max_ms) ||
                    (stuck_ms > 0 && now >= last_active_ms_ + stuck_ms && acceptor_.worker().should_shed_load());
  over ? finish(end_) : continue_draining();
}

void L4Session::on_closed(Transport& transport) {
  if (!is_client(transport) && state_ == State::kRetrying) return connect_next();
  if (state_ != State::kClosing || client_.busy() || upstream_.busy()) return;
  acceptor_.worker().defer([](void* self) { delete static_cast<L4Session*>(self); }, this);
}

}  // namespace sluice
