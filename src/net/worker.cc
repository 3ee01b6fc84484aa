#include "net/worker.h"

#include <time.h>

#include <algorithm>
#include <bit>
#include <utility>

#include "absl/strings/str_cat.h"
#include "net/listener.h"
#include "net/readable_wait.h"
#include "sluice/internal/check.h"

namespace sluice {

namespace {

// The part of the budget reserved for connections that hold little: 1 / kReserveShare.
constexpr size_t kReserveShare = 4;

// The small group is registered again to shrink, which is not done as often as the pool ages.
constexpr uint32_t kAgesPerShrink = 40;
// Aging period while the process is short of memory, so that what is freed shows before more is.
constexpr uint64_t kScarceDecayMs = 100;

// Group ids on a worker's ring.
constexpr uint16_t kSmallGroup = 0;
constexpr uint16_t kLargeGroup = 1;

// Waiting connections share incremental chunks of this size. A plain ring uses a whole chunk for each receive, so its
// chunks are smaller.
constexpr size_t kIncrementalChunkBytes = 16 * 1024;
constexpr size_t kPlainChunkBytes = 4 * 1024;
// The small group grows up to this size while clients send at once, as long as it takes at most one part in kGroupShare
// of the memory left. A plain group does not: each of its receives takes a chunk, so a single sender could make it
// grow.
constexpr uint16_t kMaxSmallEntries = 64;
constexpr size_t kGroupShare = 16;
// An incremental chunk with fewer bytes left is retired, if the kernel supports that.
constexpr uint32_t kMinLeftBytes = 1024;

// Maximum bytes per call of ChunkPool::trim, and the pause before the next call. Both bound the stall of the loop.
constexpr size_t kTrimBytes = size_t{2} << 20;
constexpr uint64_t kTrimPauseMs = 20;
constexpr uint64_t kScarceTrimPauseMs = 5;

// How soon a worker that borrows memory notices that another claims it, and one that claims some that it is there.
constexpr uint64_t kBorrowerPauseMs = 20;
constexpr uint64_t kClaimPauseMs = 5;

// Pause between two connections that shed load, so that the memory freed by the first shows.
constexpr uint64_t kShedLoadPauseMs = 10;

// The same total size in smaller pieces; the kernel's limit is 32,768.
uint16_t plain_entries(uint16_t entries) {
  return static_cast<uint16_t>(std::min<size_t>(entries * (kIncrementalChunkBytes / kPlainChunkBytes), 32768));
}

uint64_t read_us(clockid_t clock) {
  timespec now;
  clock_gettime(clock, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000 + static_cast<uint64_t>(now.tv_nsec) / 1000;
}

// How old the offset between the clocks may become.
constexpr uint64_t kWallClockUs = 10'000;

}  // namespace

uint64_t monotonic_us() { return read_us(CLOCK_MONOTONIC); }
uint64_t monotonic_ms() { return monotonic_us() / 1000; }

Worker::Worker(Options options)
    : options_(options),
      pool_({.budget_bytes = options.budget_bytes,
             .reserve_bytes = options.budget_bytes / kReserveShare,
             .huge_pages = options.huge_pages,
             .source = options.pool_source,
             .common = options.common_budget,
             .kept_bytes = options.kept_bytes}),
      now_us_(options.clock_us()),
      timers_(now_us_ / 1000),
      decay_timer_([](void* self) { static_cast<Worker*>(self)->decay(); }, this),
      settle_timer_([](void*) {}, this),  // The turn that it begins does all.
      last_age_ms_(timers_.now_ms()),
      zero_copy_bytes_(options.features.zero_copy && options.zero_copy_bytes > 0 ? options.zero_copy_bytes : SIZE_MAX) {
}

absl::StatusOr<std::unique_ptr<Worker>> Worker::open(Options options) {
  std::unique_ptr<Worker> worker(new Worker(options));
  if (worker->pool_.source() != options.pool_source) {
    return absl::ResourceExhaustedError(
        absl::StrCat("cannot reserve the addresses of a buffer pool, twice ", options.budget_bytes >> 20,
                     " MiB for each worker; lower memory.worker_budget or raise `ulimit -v`"));
  }
  // A socket has at most a receive, a send and a cancel in flight.
  const auto completions = static_cast<unsigned>(std::bit_ceil(std::clamp<size_t>(options.max_sockets, 1024, 32768)));
  auto ring = Ring::open({.submission_entries = 512, .completion_entries = completions});
  if (!ring.ok()) return ring.status();
  worker->ring_ = std::move(*ring);

  const bool incremental = options.features.incremental;
  const uint16_t small_entries = incremental ? options.ring_entries : plain_entries(options.ring_entries);
  auto small = BufferRing::open(*worker->ring_, worker->pool_,
                                {.group = kSmallGroup,
                                 .entries = small_entries,
                                 .max_entries = std::max(small_entries, incremental ? kMaxSmallEntries : uint16_t{0}),
                                 .chunk_bytes = incremental ? kIncrementalChunkBytes : kPlainChunkBytes,
                                 .incremental = incremental,
                                 .reserved = true,
                                 .min_left = options.features.min_left ? kMinLeftBytes : 0});
  if (!small.ok()) return small.status();
  worker->small_ = std::move(*small);
  auto large = BufferRing::open(*worker->ring_, worker->pool_,
                                {.group = kLargeGroup, .entries = options.ring_entries, .chunk_bytes = kMaxChunkBytes});
  if (!large.ok()) return large.status();
  worker->large_ = std::move(*large);

  worker->pool_.set_wake(
      [](void* self) {
        static Message nothing{[](Message&, Worker&) {}};
        static_cast<Worker*>(self)->post(nothing);
      },
      worker.get());
  worker->timers_.arm(worker->decay_timer_, worker->now_ms() + options.decay_ms);
  return worker;
}

Worker::~Worker() {
  ChunkPool::Use use(&pool_);
  // The last closes may not be submitted yet, and destroying a ring drops unsubmitted entries.
  if (ring_) ring_->submit();
  large_.reset();
  small_.reset();
}

void Worker::run() {
  while (!stopping_) turn();
}

void Worker::turn(int64_t timeout_ms) {
  ChunkPool::Use use(&pool_);
  Worker* const previous = std::exchange(current_, this);
  if (counters_.parked > 0) {
    pool_.wake_on_remote_free(true);
    pool_.take_remote_frees();
    resume_parked();
  }
  set_ring_timer();
  if (!yielding_tasks_.empty() || timers_.next_ms() == 0) timeout_ms = 0;
  if (observe_turn_)
    observe_turn_(observer_, turn_completions_ < kFewCompletions ? 0 : (options_.clock_us() - now_us_) / 1000);
  ring_->wait(timeout_ms < 0 ? -1 : timeout_ms * 1'000'000, coalescing_.on());
  pool_.wake_on_remote_free(false);
  now_us_ = options_.clock_us();
  timers_.set_now(now_us_ / 1000);
  ++batch_;
  ++counters_.batches;
  counters_.coalesced_batches += coalescing_.on();
  turn_completions_ =
      ring_->reap([this](Op op, void* target, Completion completion) { complete(op, target, completion); });
  counters_.completions += turn_completions_;
  coalescing_.note_turn(now_us_, turn_completions_);
  timers_.advance(now_ms());
  end_of_batch();
  if (!yielding_tasks_.empty()) {
    ring_->submit();  // Submit pending operations before the long task.
    yielding_tasks_.run_one();
    end_of_batch();
  }
  settle_budget();
  current_ = previous;
}

uint64_t Worker::wall_us() {
  if (now_us_ >= wall_due_us_) {
    wall_offset_us_ = read_us(CLOCK_REALTIME) - now_us_;
    wall_due_us_ = now_us_ + kWallClockUs;
  }
  return now_us_ + wall_offset_us_;
}

void Worker::settle_budget() {
  pool_.settle();
  if (!pool_.needs_settling() || settle_timer_.armed()) return;
  timers_.arm(settle_timer_, now_ms() + (pool_.share()->claims() ? kClaimPauseMs : kBorrowerPauseMs));
}

void Worker::complete(Op op, void* target, Completion completion) {
  switch (op) {
    case Op::kRecv:
      coalescing_.note_receive(target);
      [[fallthrough]];
    case Op::kReadable:
    case Op::kSend:
    case Op::kSendZeroCopy:
    case Op::kConnect:
      static_cast<LoopSocket*>(target)->complete(op, completion);
      break;
    case Op::kCancel:
      if (target) static_cast<LoopSocket*>(target)->complete(op, completion);
      break;
    case Op::kInput:
      static_cast<ReadableWait*>(target)->complete(completion);
      break;
    case Op::kAccept:
    case Op::kAcceptNow:
      static_cast<Listener*>(target)->complete(op, completion);
      break;
    case Op::kMessage: {
      auto& message = *static_cast<Message*>(target);
      SLUICE_CHECK(message.posted.load(std::memory_order_acquire));
      message.run(message, *this);
      break;
    }
    case Op::kTimer:
      ring_timer_due_ms_ = UINT64_MAX;
      break;
    case Op::kIgnored:
      break;
  }
}

// Moves the kernel's timer only if a deadline is earlier. A timer that fires too early costs one turn.
void Worker::set_ring_timer() {
  const int64_t next_ms = timers_.next_ms();
  if (next_ms <= 0) return;  // No timer is armed, or the loop does not wait.
  uint64_t due_ms = now_ms() + static_cast<uint64_t>(next_ms);
  // The kernel's timer runs on the real clock even if a test's clock is ahead of it.
  if (options_.clock_us != monotonic_us) due_ms = monotonic_ms() + static_cast<uint64_t>(next_ms);
  if (due_ms >= ring_timer_due_ms_) return;
  ring_timer_due_ms_ = due_ms;
  ring_->set_timer(due_ms);
}

void Worker::end_of_batch() {
  // Each step may add work for the others.
  do {
    run_all(before_sends_);
    serve_sockets();
    run_all(deferred_);
  } while (!before_sends_.empty());
}

// Submits sends before receives: memory freed by sends is posted again before the next receive needs a buffer.
void Worker::serve_sockets() {
  // The callbacks below may queue more sockets; those are served in the same pass.
  for (size_t i = 0; i < service_.size(); ++i) service_[i]->submit_send();
  pool_.take_remote_frees();
  adapt_small_group();
  small_->refill();
  large_->refill();
  resume_parked();
  for (size_t i = 0; i < service_.size(); ++i) {
    LoopSocket* socket = service_[i];
    socket->submit_send();
    socket->submit_receive();
    socket->end_service();
  }
  service_.clear();
}

// Each receive needs a buffer until the next turn. If more clients send at once than there are buffers, the others wait
// for a turn each 16 of them, behind all that these turns do. So the group grows while that happens, if there is
// memory, and decay() shrinks it.
void Worker::adapt_small_group() {
  if (std::exchange(seen_no_buffers_, counters_.no_buffers) == counters_.no_buffers) return;
  if (!scarce_ && pool_.headroom_bytes() > kGroupShare * 2 * small_->wanted_slots() * small_->chunk_bytes())
    small_->grow();
}

// The calls may add more calls, which run too.
void Worker::run_all(std::vector<Deferred>& calls) {
  for (size_t i = 0; i < calls.size(); ++i) calls[i].call(calls[i].context);
  calls.clear();
}

// In ReadMode::kPinned, waiting takes a chunk, so all sockets share one list: clients that wait for a response must not
// get the chunk that the response needs.
Worker::ParkedList& Worker::parked_list(bool bulk, bool outgoing) {
  return parked_[bulk][outgoing && options_.read_mode != ReadMode::kPinned];
}

void Worker::park(LoopSocket& socket, bool bulk, bool outgoing) {
  ParkedList& list = parked_list(bulk, outgoing);
  socket.parked_previous_ = list.last;
  socket.parked_next_ = nullptr;
  (list.last ? list.last->parked_next_ : list.first) = &socket;
  list.last = &socket;
  ++counters_.parked;
}

void Worker::unpark(LoopSocket& socket, bool bulk, bool outgoing) {
  ParkedList& list = parked_list(bulk, outgoing);
  (socket.parked_previous_ ? socket.parked_previous_->parked_next_ : list.first) = socket.parked_next_;
  (socket.parked_next_ ? socket.parked_next_->parked_previous_ : list.last) = socket.parked_previous_;
  socket.parked_next_ = socket.parked_previous_ = nullptr;
  --counters_.parked;
}

// Resumes as many sockets as buffers are posted: more would find the group empty and lose their place. If the budget
// leaves a group without buffers, its sockets may use half of the other group's, since they may hold the very chunks
// that the group needs. Bulk streams leave half of the reserve to the other sockets.
void Worker::resume_parked() {
  if (counters_.parked == 0) return;
  small_->refill();
  large_->refill();
  const size_t posted[] = {small_->filled_slots(), large_->filled_slots()};
  for (const bool bulk : {false, true}) {
    const bool from = posted[bulk] > 0 ? bulk : !bulk;
    if (bulk && !from && pool_.reserved_headroom_bytes() < pool_.reserve_bytes() / 2) continue;
    for (size_t buffers = from == bulk ? posted[from] : (posted[from] + 1) / 2; buffers > 0; --buffers) {
      const bool outgoing = parked_[bulk][outgoing_next_].first ? outgoing_next_ : !outgoing_next_;
      LoopSocket* const socket = parked_[bulk][outgoing].first;
      if (!socket) break;
      outgoing_next_ = !outgoing;
      socket->resume_parked(from);
    }
  }
}

bool Worker::should_shed_load() {
  const uint64_t now = now_ms();
  if (now < shed_load_ms_ + kShedLoadPauseMs || !short_of_memory()) return false;
  shed_load_ms_ = now;
  return true;
}

void Worker::set_scarce(bool scarce) {
  if (scarce && !scarce_) timers_.arm(decay_timer_, now_ms());
  scarce_ = scarce;
}

void Worker::decay() {
  uint64_t next_ms = now_ms() + (scarce_ ? kScarceTrimPauseMs : kTrimPauseMs);
  const uint64_t period_ms = scarce_ ? std::min(options_.decay_ms, kScarceDecayMs) : options_.decay_ms;
  if (now_ms() - last_age_ms_ >= period_ms) {
    last_age_ms_ = now_ms();
    pool_.age();
    if (++ages_ % kAgesPerShrink == 0 || scarce_) small_->shrink();
  }
  if (!pool_.trim(kTrimBytes)) next_ms = std::max(next_ms, last_age_ms_ + period_ms);
  timers_.arm(decay_timer_, next_ms);
}

namespace {

// For threads that are not workers.
thread_local std::unique_ptr<Ring> outside_ring;

}  // namespace

absl::Status Worker::prepare_to_post() {
  if (outside_ring) return absl::OkStatus();
  auto ring = Ring::open({.submission_entries = 4, .completion_entries = 8});
  if (!ring.ok()) return ring.status();
  outside_ring = std::move(*ring);
  return absl::OkStatus();
}

void Worker::post(Message& message) {
  // Read the descriptor before the store: once posted, the message may end this worker.
  const int to = ring_->fd();
  message.posted.store(true, std::memory_order_release);
  if (Worker* sender = current_) {
    sender->ring_->message(to, &message);
    return;
  }
  SLUICE_CHECK(prepare_to_post().ok());
  outside_ring->message(to, &message);
  outside_ring->submit();
}

}  // namespace sluice
