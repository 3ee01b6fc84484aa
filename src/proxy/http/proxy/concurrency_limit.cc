#include "proxy/http/proxy/concurrency_limit.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"
#include "net/worker.h"
#include "proxy/http/proxy/upstream_caller.h"
#include "proxy/log/run_log.h"
#include "sluice/internal/check.h"

namespace sluice {

namespace {

// A request without a response for so long, or for so many times the latency without load, is a long poll or lost.
constexpr uint64_t kOverdueMs = 10'000;
constexpr double kOverdueLatencies = 10;

// So many may wait, however low the limit is: clients send requests in bursts.
constexpr uint32_t kLeastWaiting = 16;
// Places are numbered with 16 bits. In flight, incomplete and waiting are at most about the limit each.
constexpr size_t kMostSeats = UINT16_MAX;
static_assert(4 * config::AdaptiveConcurrency::kMost < kMostSeats);

// Requests may be refused for a moment now and then. The log has one line for all of it, unless it pauses this long.
constexpr uint64_t kEpisodeMs = 10'000;

uint64_t wall_clock_ms() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::milliseconds>(now).count());
}

}  // namespace

ConcurrencyLimit::ConcurrencyLimit(Worker& loop, WorkerUpstream& upstream)
    : loop_(loop),
      upstream_(upstream),
      config_(*upstream.state->config().adaptive_concurrency),
      counters_(*upstream.http_counters),
      clock_offset_ms_(wall_clock_ms() - loop.now_ms()),
      control_({.min = config_.min, .max = config_.max, .initial = config_.initial}, upstream.learned,
               &upstream.state->probe_wish()),
      seats_(1),
      timer_([](void* self) { static_cast<ConcurrencyLimit*>(self)->expire(); }, this) {
  update_counters();
}

ConcurrencyLimit::~ConcurrencyLimit() { SLUICE_CHECK(!busy()); }

uint64_t ConcurrencyLimit::now_ms() const { return loop_.now_ms(); }

// ---- Places ----

ConcurrencyLimit::List& ConcurrencyLimit::list_of(const Seat& seat) {
  switch (seat.state) {
    case State::kWaiting:
      return queues_[static_cast<size_t>(seat.priority)];
    case State::kIncomplete:
      return incomplete_;
    case State::kInFlight:
      return in_flight_;
    case State::kFree:
      break;
  }
  return free_;
}

void ConcurrencyLimit::push(Place place, State state) {
  Seat& seat = seats_[place];
  seat.state = state;
  seat.since_ms = now_ms();
  List& list = list_of(seat);
  seat.next = 0;
  seat.previous = list.last;
  (list.last != 0 ? seats_[list.last].next : list.first) = place;
  list.last = place;
  ++list.size;
}

void ConcurrencyLimit::remove(Place place) {
  Seat& seat = seats_[place];
  List& list = list_of(seat);
  (seat.previous != 0 ? seats_[seat.previous].next : list.first) = seat.next;
  (seat.next != 0 ? seats_[seat.next].previous : list.last) = seat.previous;
  --list.size;
  if (seat.state == State::kWaiting) --waiting_;
}

void ConcurrencyLimit::free(Place place) {
  remove(place);
  seats_[place].request = nullptr;
  push(place, State::kFree);
}

// Returns 0 if there is none.
ConcurrencyLimit::Place ConcurrencyLimit::take_seat(UpstreamCaller& request, config::Priority priority) {
  Place place = free_.last;
  if (place != 0) {
    remove(place);
  } else {
    if (seats_.size() >= kMostSeats) return 0;
    place = static_cast<Place>(seats_.size());
    seats_.emplace_back();
  }
  seats_[place].request = &request;
  seats_[place].priority = priority;
  return place;
}

bool ConcurrencyLimit::has_room() const {
  const uint32_t limit = control_.limit();
  return in_flight_.size + std::min(incomplete_.size, limit / 2) < limit;
}

// Those of low priority never wait, so that they are refused first; those of normal priority leave one half of the
// queue to those of high priority.
bool ConcurrencyLimit::may_wait(config::Priority priority, uint32_t connecting) const {
  if (priority == config::Priority::kLow || config_.max_wait.count() == 0) return false;
  const uint32_t most = std::max(control_.limit(), kLeastWaiting);
  if (waiting_ + connecting >= upstream_.state->config().pool.max_pending) return false;
  return waiting_ < (priority == config::Priority::kHigh ? most : most / 2);
}

ConcurrencyLimit::Entry ConcurrencyLimit::enter(UpstreamCaller& request, bool complete, uint32_t connecting,
                                                Place& place) {
  const config::Priority priority = request.priority();
  control_.note_time(shared_ms());
  drop_overdue();
  if (reported_ && now_ms() > last_refused_ms_ + kEpisodeMs) end_episode();
  const bool goes = has_room() && waiting_ == 0;
  if (!goes) control_.note_full();
  if (!goes && !may_wait(priority, connecting)) return refuse(priority);
  if (!complete && incomplete_.size >= control_.limit()) return refuse(priority);
  place = take_seat(request, priority);
  if (place == 0) return refuse(priority);
  if (goes) {
    push(place, State::kInFlight);
    control_.note_begin(shared_ms());
    update_counters();
    return Entry::kAdmitted;
  }
  push(place, State::kWaiting);
  ++waiting_;
  if (!timer_.armed()) arm();
  schedule();
  update_counters();
  return Entry::kWaits;
}

void ConcurrencyLimit::note_sent(Place place) {
  remove(place);
  push(place, State::kInFlight);
}

void ConcurrencyLimit::note_incomplete(Place place) {
  remove(place);
  push(place, State::kIncomplete);
  schedule();
}

void ConcurrencyLimit::note_response(Place place, uint16_t status) {
  constexpr uint16_t kTooManyRequests = 429, kServerError = 500, kUnavailable = 503, kGatewayTimeout = 504;
  const Seat& seat = seats_[place];
  if (status == kUnavailable || status == kGatewayTimeout) control_.note_failure(shared_ms());
  // An error takes less time than a proper response.
  const bool counts = seat.state == State::kInFlight && status < kServerError && status != kTooManyRequests;
  if (!counts) return leave(place);
  const uint64_t latency_ms = now_ms() - seat.since_ms;
  free(place);
  control_.note_response(latency_ms, shared_ms());
  upstream_.learned = control_.learned();
  schedule();
  update_counters();
}

void ConcurrencyLimit::leave(Place place) {
  const bool waited = seats_[place].state == State::kWaiting;
  free(place);
  if (!waited) {
    control_.note_end();
    schedule();
  }
  update_counters();
}

// The first ones in flight have been so for the longest time.
void ConcurrencyLimit::drop_overdue() {
  const uint64_t most_ms = std::max(kOverdueMs, static_cast<uint64_t>(kOverdueLatencies * control_.base_ms()));
  for (List* const list : {&in_flight_, &incomplete_}) {
    while (list->first != 0 && now_ms() > seats_[list->first].since_ms + most_ms) {
      const Place place = list->first;
      seats_[place].request->on_place_lost();
      leave(place);
    }
  }
}

// ---- Waiting ----

// Those that wait go on when all events of the turn are handled, and connections that became free can be found.
void ConcurrencyLimit::schedule() {
  if (waiting_ == 0 || !has_room() || std::exchange(due_, true)) return;
  loop_.defer([](void* self) { static_cast<ConcurrencyLimit*>(self)->serve(); }, this);
}

ConcurrencyLimit::Place ConcurrencyLimit::first_waiting() const {
  for (const List& queue : queues_) {
    if (queue.first != 0) return queue.first;
  }
  return 0;
}

void ConcurrencyLimit::serve() {
  due_ = false;
  while (waiting_ > 0 && has_room()) {
    const Place place = first_waiting();
    remove(place);
    push(place, State::kInFlight);
    control_.note_begin(shared_ms());
    seats_[place].request->on_place();
  }
  if (waiting_ > 0) control_.note_full();
  update_counters();
}

void ConcurrencyLimit::arm() {
  uint64_t first_ms = UINT64_MAX;
  for (const List& queue : queues_) {
    if (queue.first != 0) first_ms = std::min(first_ms, seats_[queue.first].since_ms);
  }
  if (first_ms != UINT64_MAX) loop_.timers().arm(timer_, first_ms + config::milliseconds(config_.max_wait));
}

void ConcurrencyLimit::expire() {
  drop_overdue();
  const uint64_t max_wait_ms = config::milliseconds(config_.max_wait);
  for (const List& queue : queues_) {
    while (queue.first != 0 && now_ms() >= seats_[queue.first].since_ms + max_wait_ms) {
      const Place place = queue.first;
      UpstreamCaller& request = *seats_[place].request;
      (void)refuse(seats_[place].priority);
      request.on_place_lost();
      free(place);
      request.on_no_upstream(HttpEnd::kConcurrencyLimit);
    }
  }
  arm();
  update_counters();
}

// ---- Refusals ----

ConcurrencyLimit::Entry ConcurrencyLimit::refuse(config::Priority priority) {
  counters_.limit_refused[static_cast<size_t>(priority)].add();
  ++refused_;
  last_refused_ms_ = now_ms();
  if (!std::exchange(reported_, true)) note_refusal();
  return Entry::kRefused;
}

void ConcurrencyLimit::note_refusal() {
  refused_since_ms_ = now_ms();
  refused_ = 1;
  const std::string_view name = upstream_.state->config().name;
  log_line(LogLevel::kWarning,
           absl::StrCat("upstream \"", name, "\": worker ", loop_.index(), " has ", in_flight_.size + incomplete_.size,
                        " requests in flight, and adaptive_concurrency allows ", control_.limit(),
                        ": others wait or get 503 (concurrency_limit), those of low priority first; add endpoints"),
           {.upstream = name, .reason = "concurrency_limit"});
}

void ConcurrencyLimit::end_episode() {
  reported_ = false;
  const std::string_view name = upstream_.state->config().name;
  log_line(LogLevel::kInfo,
           absl::StrCat("upstream \"", name, "\": worker ", loop_.index(), " refused ", refused_, " requests in ",
                        (last_refused_ms_ - refused_since_ms_) / 1000, " s because of adaptive_concurrency"),
           {.upstream = name, .reason = "concurrency_limit"});
}

void ConcurrencyLimit::update_counters() {
  counters_.limit.set(control_.limit());
  counters_.limit_in_flight.set(in_flight_.size + incomplete_.size);
  counters_.limit_waiting.set(waiting_);
  counters_.limit_base_us.set(static_cast<uint64_t>(control_.base_ms() * 1000));
}

}  // namespace sluice
