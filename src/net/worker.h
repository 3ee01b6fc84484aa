#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "net/buffer_ring.h"
#include "net/features.h"
#include "net/loop_socket.h"
#include "net/read_mode.h"
#include "net/ring.h"
#include "net/timer_wheel.h"
#include "net/wait_coalescing.h"
#include "net/yielding_task.h"
#include "sluice/chunk_pool.h"

namespace sluice {

class Listener;
class Worker;

/// CLOCK_MONOTONIC.
uint64_t monotonic_us();
uint64_t monotonic_ms();

/// Work for another worker's loop. The sender must keep it in place until it has run.
struct alignas(kTargetAlignment) Message {
  void (*run)(Message& message, Worker& worker);
  /// Orders the sender's writes before `post` before `run`. The kernel orders them too, but the C++ memory model does
  /// not cover that.
  std::atomic<bool> posted{false};
};

/// One thread with its own ring, pool, posted buffers and timers. Workers share nothing and communicate by messages.
class Worker {
 public:
  struct Options {
    unsigned index = 0;
    Features features;
    /// A quarter of it is a reserve, which only receives for waiting connections (the small group) may use.
    size_t budget_bytes = size_t{256} << 20;
    /// What the workers of a process lend one another, or null, and what this one never lends: see ChunkPool::Options.
    /// `budget_bytes` is then what it is guaranteed. The budget must outlive the worker.
    Budget* common_budget = nullptr;
    size_t kept_bytes = 0;
    bool huge_pages = false;
    ChunkPool::Source pool_source = ChunkPool::Source::kArena;
    ReadMode read_mode = ReadMode::kProvided;
    size_t max_sockets = 20'000;  ///< Determines the size of the completion queue.
    /// Number of buffers posted for waiting connections, and the same number for bulk streams; a power of two. With
    /// plain rings, the buffers for waiting connections are a quarter of the size and four times as many.
    uint16_t ring_entries = 16;
    size_t zero_copy_bytes = 0;             ///< Minimum size of a zero-copy send in bytes; 0: never.
    uint64_t decay_ms = 250;                ///< Aging period of the pool.
    uint64_t (*clock_us)() = monotonic_us;  ///< The clock for now_us(); tests supply a manual one.
  };
  /// Opens a worker with its ring on the calling thread, which must also call run().
  static absl::StatusOr<std::unique_ptr<Worker>> open(Options options);
  ~Worker();

  /// Runs the loop until stop().
  void run();
  void stop() { stopping_ = true; }
  /// Runs one turn of the loop. Waits up to `timeout_ms` (negative: no timeout). For run() and tests.
  void turn(int64_t timeout_ms = -1);

  unsigned index() const { return options_.index; }
  const Options& options() const { return options_; }
  Ring& ring() { return *ring_; }
  ChunkPool& pool() { return pool_; }
  TimerWheel& timers() { return timers_; }
  YieldingQueue& yielding_tasks() { return yielding_tasks_; }
  BufferRing& small_group() { return *small_; }
  BufferRing& large_group() { return *large_; }
  /// The monotonic clock, read once per turn after the wait: the time of the events that the turn handles, however long
  /// the worker slept.
  uint64_t now_us() const { return now_us_; }
  uint64_t now_ms() const { return timers_.now_ms(); }
  /// now_us() in microseconds since 1970. A change of the system's clock shows within 10 ms.
  uint64_t wall_us();
  /// Number of turns so far.
  uint32_t batch() const { return batch_; }

  /// Runs `message` on this worker. Callable on another worker's thread (through its ring) or on any other thread.
  void post(Message& message);
  /// Prepares a thread that is not a worker for post by opening a small ring. Later there may be no free descriptor for
  /// it.
  static absl::Status prepare_to_post();
  /// The worker whose loop this thread runs, or null.
  static Worker* current() { return current_; }

  /// Calls `call(context)` once at the end of this batch. Use it to destroy an object from inside its own callbacks.
  void defer(void (*call)(void* context), void* context) { deferred_.push_back({call, context}); }

  /// Calls `call(context)` once at the end of this batch, before its sends are submitted. Use it to combine the results
  /// of the whole batch.
  void before_sends(void (*call)(void* context), void* context) { before_sends_.push_back({call, context}); }

  /// Calls `observe(context, busy_ms)` before each wait with how long the turn has taken: since the wait before it,
  /// whose end is now_ms(). It is 0 for a turn of fewer than kFewCompletions, for which the clock is not read: behind
  /// so few events nothing has queued for long.
  void observe_turns(void (*observe)(void* context, uint64_t busy_ms), void* context) {
    observe_turn_ = observe;
    observer_ = context;
  }

  /// Requests a submission for `socket` at the end of the batch.
  void request_service(LoopSocket& socket) { service_.push_back(&socket); }
  /// Parks sockets whose receive found no buffer and arms them again as chunks are released. Accepted and outgoing
  /// sockets take turns, each first in, first out. Data from a client often frees chunks (it takes a response or
  /// leaves), whereas data from an upstream mostly uses them, and there may be many more upstream sockets. `bulk`: the
  /// receive needs a buffer of the large group. Both arguments must be the same for park and unpark.
  void park(LoopSocket& socket, bool bulk, bool outgoing);
  void unpark(LoopSocket& socket, bool bulk, bool outgoing);

  /// Counters of one worker. Only its own thread writes them.
  struct Counters {
    uint64_t batches = 0;
    uint64_t coalesced_batches = 0;  ///< Those whose wait was for several completions (WaitCoalescing).
    uint64_t completions = 0;
    uint64_t receives = 0;
    uint64_t sends = 0;
    uint64_t no_buffers = 0;  ///< Receives that found their buffer group empty.
    uint64_t zero_copy_sends = 0;
    uint64_t zero_copy_copied = 0;  ///< ... of those, sends that the kernel copied anyway.
    uint64_t parked = 0;            ///< Sockets parked at the moment.
    uint64_t packed = 0;            ///< Small pieces copied together behind a slow peer.
  };
  Counters& counters() { return counters_; }

  /// The share of the chunk memory that one connection may hold: a fraction of the memory left, at most `most_bytes`.
  /// Even if many connections take all they may, the shares shrink faster than the memory, and some is left for the
  /// others.
  size_t share(size_t most_bytes) const {
    const size_t left = scarce_ ? 0 : pool_.headroom_bytes();
    const size_t share = left > 0 ? std::max(left / kShareOfRest, kShareMin)
                                  : std::max(pool_.reserved_headroom_bytes() / kShareOfReserve, kReserveShareMin);
    return std::min(most_bytes, share);
  }
  /// Whether the whole budget except the reserve is in use. Connections that hold more than share() must then give some
  /// back.
  bool in_reserve() const { return scarce_ || pool_.headroom_bytes() == 0; }
  /// The process is short of memory: from now on it is as if the budget, the reserve apart, were in use.
  /// Unused memory returns to the system as soon as possible.
  void set_scarce(bool scarce);
  /// Whether that is so. It is at this address as long as the worker lives.
  const bool& scarce() const { return scarce_; }

  /// Whether receives wait because the chunk budget is used up, rather than only because the ring is empty for a
  /// moment.
  bool short_of_memory() const {
    return in_reserve() ||
           (counters_.parked > 0 && pool_.headroom_bytes() < std::max(kMaxChunkBytes, counters_.parked * kParkedBytes));
  }
  /// Whether a stuck connection with data should shed load now: memory is short, and no other connection has just done
  /// so.
  bool should_shed_load();

  /// The receive chunk of the socket with this descriptor, in the read modes that use one.
  ChunkRef& own_chunk(int fd) {
    const auto index = static_cast<size_t>(fd);
    if (index >= own_chunks_.size()) own_chunks_.resize(index + 1);
    return own_chunks_[index];
  }

  /// Minimum size of a zero-copy send, or SIZE_MAX.
  size_t zero_copy_bytes() const { return zero_copy_bytes_; }

 private:
  static constexpr size_t kFewCompletions = 8;
  // Memory that each parked receive should find.
  static constexpr size_t kParkedBytes = size_t{16} * 1024;
  // share(): 1/32 of the memory left, as long as the budget outside the reserve is not used up. A thousand connections
  // that each take 1/1024 of the reserve leave a third of it.
  static constexpr size_t kShareOfRest = 32;
  static constexpr size_t kShareMin = size_t{16} * 1024;
  static constexpr size_t kShareOfReserve = 1024;
  static constexpr size_t kReserveShareMin = size_t{4} * 1024;
  struct Deferred {
    void (*call)(void* context);
    void* context;
  };

  explicit Worker(Options options);
  void complete(Op op, void* target, Completion completion);
  void end_of_batch();
  void settle_budget();
  void serve_sockets();
  static void run_all(std::vector<Deferred>& calls);
  void adapt_small_group();
  void resume_parked();
  void set_ring_timer();
  void decay();

  static inline constinit thread_local Worker* current_ = nullptr;

  Options options_;
  ChunkPool pool_;
  std::unique_ptr<Ring> ring_;
  std::unique_ptr<BufferRing> small_;
  std::unique_ptr<BufferRing> large_;
  uint64_t now_us_;
  uint64_t wall_offset_us_ = 0;  // What it takes from now_us_ to the time since 1970; read anew at wall_due_us_.
  uint64_t wall_due_us_ = 0;
  TimerWheel timers_;
  YieldingQueue yielding_tasks_;
  Timer decay_timer_;
  Timer settle_timer_;
  uint64_t last_age_ms_ = 0;
  uint32_t ages_ = 0;
  uint64_t shed_load_ms_ = 0;
  uint64_t ring_timer_due_ms_ = UINT64_MAX;
  Counters counters_;
  uint64_t seen_no_buffers_ = 0;  // Counters::no_buffers at the last look.
  uint32_t batch_ = 0;
  bool stopping_ = false;
  bool scarce_ = false;
  void (*observe_turn_)(void* context, uint64_t busy_ms) = nullptr;
  void* observer_ = nullptr;
  size_t turn_completions_ = 0;
  WaitCoalescing coalescing_;
  size_t zero_copy_bytes_;
  std::vector<ChunkRef> own_chunks_;  // By descriptor.
  std::vector<LoopSocket*> service_;
  std::vector<Deferred> deferred_;
  std::vector<Deferred> before_sends_;
  struct ParkedList {
    LoopSocket* first = nullptr;
    LoopSocket* last = nullptr;
  };
  ParkedList& parked_list(bool bulk, bool outgoing);
  // Indexed by group (small, large) and direction (accepted, outgoing).
  ParkedList parked_[2][2];
  bool outgoing_next_ = false;  // Whether an outgoing socket is next in turn.
};

}  // namespace sluice
