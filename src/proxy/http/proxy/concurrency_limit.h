#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "net/timer_wheel.h"
#include "proxy/config/model/adaptive_concurrency.h"
#include "proxy/config/model/overload.h"
#include "proxy/listener/worker_upstream.h"
#include "proxy/upstream/concurrency_control.h"

namespace sluice {

class Worker;
class UpstreamCaller;

/// The requests of one worker that are in flight to an upstream, and those that wait for a place among them: what
/// `adaptive_concurrency` allows. It exists only where that is configured.
///
/// A request is in flight from when it was passed on completely until the head of its response arrives. While a part of
/// it is missing, it takes a place, too; but all of these together take at most half of the places, as their clients
/// decide how long that lasts. A request without a response for very long is not waited for any more. So streams,
/// tunnels and long polls keep no place for long.
class ConcurrencyLimit {
 public:
  /// A request's place; 0: none.
  using Place = uint16_t;
  enum class Entry : uint8_t { kAdmitted, kWaits, kRefused };

  /// `upstream` outlives it, and has the configuration.
  ConcurrencyLimit(Worker& loop, WorkerUpstream& upstream);
  ~ConcurrencyLimit();
  ConcurrencyLimit(const ConcurrencyLimit&) = delete;
  ConcurrencyLimit& operator=(const ConcurrencyLimit&) = delete;

  /// Requests a place. One that waits gets on_place() later, unless it leaves, or on_no_upstream(kConcurrencyLimit)
  /// when it has waited for too long. `complete`: whether all of it has arrived. `connecting`: how many requests wait
  /// for a connection to the upstream; pool.max_pending counts both. An admitted or waiting one has `place` before this
  /// returns.
  Entry enter(UpstreamCaller& request, bool complete, uint32_t connecting, Place& place);
  /// The request was passed on completely: its time counts from now on.
  void note_sent(Place place);
  /// A part of the request is missing.
  void note_incomplete(Place place);
  /// The head of the response has arrived: leaves. `status`: of HTTP, or what a status of gRPC amounts to.
  void note_response(Place place, uint16_t status);
  /// A request has failed because of its endpoint, or had no response in time. It leaves later.
  void note_failure() { control_.note_failure(shared_ms()); }
  void leave(Place place);
  /// `by` continues instead of the request that has this place.
  void replace(Place place, UpstreamCaller& by) { seats_[place].request = &by; }
  /// Whether the request is complete at its endpoint.
  bool is_sent(Place place) const { return seats_[place].state == State::kInFlight; }

  /// Whether a call of serve() is due, or requests wait.
  bool busy() const { return due_ || waiting_ > 0; }

 private:
  enum class State : uint8_t { kFree, kWaiting, kIncomplete, kInFlight };
  struct Seat {
    UpstreamCaller* request = nullptr;
    uint64_t since_ms = 0;
    Place next = 0, previous = 0;
    State state = State::kFree;
    config::Priority priority = config::Priority::kNormal;
  };
  // First in, first out.
  struct List {
    Place first = 0, last = 0;
    uint32_t size = 0;
  };

  uint64_t now_ms() const;
  /// The time on a clock that other proxies have, too.
  uint64_t shared_ms() const { return now_ms() + clock_offset_ms_; }
  List& list_of(const Seat& seat);
  void push(Place place, State state);
  void remove(Place place);
  void free(Place place);
  Place take_seat(UpstreamCaller& request, config::Priority priority);
  bool has_room() const;
  bool may_wait(config::Priority priority, uint32_t connecting) const;
  void drop_overdue();
  Entry refuse(config::Priority priority);
  void note_refusal();
  void end_episode();
  void schedule();
  void serve();
  Place first_waiting() const;
  void expire();
  void arm();
  void update_counters();

  Worker& loop_;
  WorkerUpstream& upstream_;
  const config::AdaptiveConcurrency& config_;
  UpstreamHttpCounters& counters_;
  uint64_t clock_offset_ms_;
  ConcurrencyControl control_;
  std::vector<Seat> seats_;  // The first one is nobody's.
  List free_, incomplete_, in_flight_;
  std::array<List, config::kPriorityCount> queues_;  // By priority.
  uint32_t waiting_ = 0;
  bool due_ = false;
  Timer timer_;  // When the first of those that wait has waited for too long.
  // For the log.
  bool reported_ = false;
  uint64_t refused_ = 0;  // In this episode.
  uint64_t refused_since_ms_ = 0;
  uint64_t last_refused_ms_ = 0;
};

}  // namespace sluice
