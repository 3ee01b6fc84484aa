#include "proxy/http/proxy/connection_pump.h"

#include <cstddef>
#include <utility>

#include "sluice/internal/check.h"

namespace sluice {

ConnectionPump::ConnectionPump(Worker& loop, Pump pump)
    : loop_(loop),
      pump_(pump),
      later_timer_([](void* self) { static_cast<ConnectionPump*>(self)->schedule(); }, this) {}

ConnectionPump::~ConnectionPump() { SLUICE_CHECK(awake_.first == nullptr && later_.first == nullptr); }

void ConnectionPump::List::push(PumpedConnection& connection) {
  connection.next_awake_ = nullptr;
  (last ? last->next_awake_ : first) = &connection;
  last = &connection;
}

PumpedConnection* ConnectionPump::List::pop() {
  PumpedConnection* const connection = first;
  if (connection) first = connection->next_awake_;
  if (!first) last = nullptr;
  return connection;
}

bool ConnectionPump::List::remove(PumpedConnection& connection) {
  PumpedConnection* previous = nullptr;
  for (PumpedConnection* at = first; at != nullptr; previous = std::exchange(at, at->next_awake_)) {
    if (at != &connection) continue;
    (previous ? previous->next_awake_ : first) = connection.next_awake_;
    if (last == &connection) last = previous;
    return true;
  }
  return false;
}

void ConnectionPump::wake(PumpedConnection& connection) {
  if (std::exchange(connection.awake_, true)) return;
  awake_.push(connection);
  schedule();
}

void ConnectionPump::schedule() {
  if (std::exchange(due_, true)) return;
  loop_.before_sends([](void* self) { static_cast<ConnectionPump*>(self)->pump_all(); }, this);
}

// A connection may wake another one, or itself. Those whose heads were held back go on first in, first out, as long as
// the turn's budget lasts, and at least one of them in each turn. Those whose peer is gone do not count, because a
// crowd that connects and resets would fill the queue with them, and they hold what they have received.
void ConnectionPump::pump_all() {
  constexpr unsigned kMostGone = 32;
  bool first = true;
  unsigned gone = 0;
  do {
    while (PumpedConnection* const connection = awake_.pop()) pump_(*connection);
    PumpedConnection* const resumed = first || head_budget_.left_bytes > 0 ? later_.pop() : nullptr;
    if (!resumed) break;
    resumed->resumed_ = true;
    if (pump_(*resumed) || ++gone == kMostGone) first = false;
  } while (true);
  due_ = false;
  head_budget_ = {};
  if (later_.first) loop_.timers().arm_for_next(later_timer_);
}

void ConnectionPump::pump_later(PumpedConnection& connection) {
  if (std::exchange(connection.awake_, true)) return;
  later_.push(connection);
}

// Ending a stream resets its upstream connection, which takes about as long as decoding 8 KiB of heads.
bool ConnectionPump::may_end(uint32_t streams) {
  constexpr uint32_t kFewStreams = 4;
  constexpr size_t kStreamBytes = size_t{8} * 1024;
  if (streams <= kFewStreams) return true;
  return head_budget_.take(streams * kStreamBytes);
}

void ConnectionPump::forget(PumpedConnection& connection) {
  if (connection.awake_) awake_.remove(connection) || later_.remove(connection);
}

}  // namespace sluice
