#pragma once

#include <cstddef>
#include <cstdint>

#include "net/timer_wheel.h"

namespace sluice {

class UpstreamCaller;
class Worker;

/// The requests of a worker's clients that wait to be forwarded, because a turn of its loop forwards kTurnRequests of
/// them at most.
///
/// A worker that gets more requests than it has time for thus has few of them in flight. Were all forwarded at once,
/// each would take a connection of its own to an endpoint, and when its response arrives, the memory that it uses, the
/// kernel's and the proxy's, would not be in the processor's caches any more.
///
/// The queue is no limit: the next turn begins at once while requests wait. A worker that is not overloaded gets fewer
/// in a turn.
///
/// First in, first out, in two lists that take turns: requests of clients that have no other one, and those of clients
/// that have many streams, so that the former do not wait behind the latter.
class ForwardQueue {
 public:
  static constexpr unsigned kTurnRequests = 64;

  explicit ForwardQueue(Worker& worker);
  ~ForwardQueue();

  /// Whether a request may be forwarded now. If not, it waits until UpstreamCaller::on_turn() is called, or remove().
  /// `alone`: its client has no other request.
  bool admit(UpstreamCaller& request, bool alone);
  void remove(UpstreamCaller& request);
  /// How long the first request of the queue has waited, in milliseconds; 0: none waits.
  uint64_t wait_ms() const;

 private:
  struct List {
    void push(UpstreamCaller& request);
    void remove(UpstreamCaller& request);
    UpstreamCaller* first = nullptr;
    UpstreamCaller* last = nullptr;
  };

  bool empty() const { return !lists_[0].first && !lists_[1].first; }
  unsigned& left_in_turn();
  void forward_some();

  Worker& worker_;
  Timer timer_;
  List lists_[2];  // By `alone`.
  bool alone_next_ = true;
  uint32_t turn_ = 0;  // The turn that left_ is for.
  unsigned left_ = kTurnRequests;
};

}  // namespace sluice
