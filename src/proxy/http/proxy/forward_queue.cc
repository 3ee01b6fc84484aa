#include "proxy/http/proxy/forward_queue.h"

#include <algorithm>
#include <utility>

#include "net/worker.h"
#include "proxy/http/proxy/upstream_caller.h"
#include "sluice/internal/check.h"

namespace sluice {

ForwardQueue::ForwardQueue(Worker& worker)
    : worker_(worker), timer_([](void* self) { static_cast<ForwardQueue*>(self)->forward_some(); }, this) {}

ForwardQueue::~ForwardQueue() { SLUICE_CHECK(empty()); }

void ForwardQueue::List::push(UpstreamCaller& request) {
  request.next_waiting = nullptr;
  request.previous_waiting = last;
  (last ? last->next_waiting : first) = &request;
  last = &request;
}

void ForwardQueue::List::remove(UpstreamCaller& request) {
  (request.previous_waiting ? request.previous_waiting->next_waiting : first) = request.next_waiting;
  (request.next_waiting ? request.next_waiting->previous_waiting : last) = request.previous_waiting;
  request.next_waiting = request.previous_waiting = nullptr;
}

unsigned& ForwardQueue::left_in_turn() {
  if (std::exchange(turn_, worker_.batch()) != worker_.batch()) left_ = kTurnRequests;
  return left_;
}

bool ForwardQueue::admit(UpstreamCaller& request, bool alone) {
  unsigned& left = left_in_turn();
  if (left > 0 && empty()) {
    --left;
    return true;
  }
  request.set_forward_list(alone);
  lists_[alone].push(request);
  if (!timer_.armed()) worker_.timers().arm_for_next(timer_);
  return false;
}

void ForwardQueue::remove(UpstreamCaller& request) {
  lists_[request.forward_list()].remove(request);
  request.set_forward_list(UpstreamCaller::kNoList);
}

uint64_t ForwardQueue::wait_ms() const {
  uint64_t since_ms = worker_.now_ms();
  for (const List& each : lists_) {
    if (each.first) since_ms = std::min(since_ms, each.first->waiting_since_ms());
  }
  return worker_.now_ms() - since_ms;
}

void ForwardQueue::forward_some() {
  for (unsigned& left = left_in_turn(); left > 0 && !empty(); --left) {
    const bool alone = lists_[alone_next_].first ? alone_next_ : !alone_next_;
    alone_next_ = !alone;
    UpstreamCaller& request = *lists_[alone].first;
    remove(request);
    request.on_turn();
  }
  if (!empty()) worker_.timers().arm_for_next(timer_);
}

}  // namespace sluice
