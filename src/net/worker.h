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
#include "net/ring.h"
#include "net/socket.h"
#include "net/timer_wheel.h"
#include "net/yielding_task.h"
#include "pool/chunk_pool.h"

namespace sluice {

class Listener;
class Worker;

/// Milliseconds of CLOCK_MONOTONIC.
uint64_t monotonic_ms();

/// Work for another worker's loop. The sender keeps it in place until it has run.
struct alignas(kTargetAlignment) Message {
  void (*run)(Message& message, Worker& worker);
  /// Orders what the sender wrote before `post` before `run`. The kernel does too, but the language does not know it.
  std::atomic<bool> posted{false};
};

/// One thread's world: ring, pool, posted buffers, timers. Workers share nothing; they talk by messages.
class Worker {
 public:
  struct Options {
    unsigned index = 0;
    Features features;
    /// A quarter of it is a reserve: only receives for waiting connections (the small group) may use that.
    size_t budget_bytes = size_t{256} << 20;
    bool huge_pages = false;
    ChunkPool::Source pool_source = ChunkPool::Source::kArena;
    ReadMode read_mode = ReadMode::kProvided;
    size_t max_sockets = 20'000;  ///< Sizes the completion queue.
    /// Buffers posted for waiting connections and as many for bulk streams; a power of two. Where rings are plain,
    /// those for waiting connections are a quarter of the size and four times as many.
    uint16_t ring_entries = 16;
    size_t zero_copy_bytes = 0;             ///< Sends of at least this many bytes go out zero-copy; 0: never.
    uint64_t decay_ms = 10'000;             ///< Ageing period of the pool.
    uint64_t (*clock_ms)() = monotonic_ms;  ///< What now_ms() reads; tests give one that they move.
  };
  /// Opens the ring on the calling thread, which must be the one that calls run().
  static absl::StatusOr<std::unique_ptr<Worker>> open(Options options);
  ~Worker();

  /// Runs until stop().
  void run();
  void stop() { stopping_ = true; }
  /// One turn of the loop: waits up to `timeout_ms` (negative: until there is something to do). For tests and run().
  void turn(int64_t timeout_ms = -1);

  unsigned index() const { return options_.index; }
  const Options& options() const { return options_; }
  Ring& ring() { return *ring_; }
  ChunkPool& pool() { return pool_; }
  TimerWheel& timers() { return timers_; }
  YieldingQueue& yielding_tasks() { return yielding_tasks_; }
  BufferRing& small_group() { return *small_; }
  BufferRing& large_group() { return *large_; }
  /// Milliseconds of the monotonic clock, read once per turn, after the wait: it is the time of the events that the
  /// turn handles, however long the worker slept before.
  uint64_t now_ms() const { return timers_.now_ms(); }
  /// Counts the loop's turns.
  uint32_t batch() const { return batch_; }

  /// Runs `message` on this worker; callable from another worker's thread (whose ring carries it) or any other.
  void post(Message& message);
  /// Readies this thread, which is no worker, for post: opens a small ring of its own. Later there may be no descriptor
  /// free for it.
  static absl::Status prepare_to_post();
  /// The worker whose loop this thread runs, or null.
  static Worker* current() { return current_; }

  /// Calls `call(context)` once at the end of this batch: for destroying an object from inside its own callbacks.
  void defer(void (*call)(void* context), void* context) { deferred_.push_back({call, context}); }

  /// Calls `call(context)` once at the end of this batch, before its sends go out: for what is put together from all
  /// that the batch brought.
  void before_sends(void (*call)(void* context), void* context) { before_sends_.push_back({call, context}); }

  /// Sockets that want a submission at the end of the batch.
  void request_service(Socket& socket) { service_.push_back(&socket); }
  /// Sockets whose receive found no buffer: re-armed as chunks come home. Accepted ones and our own by turns, each
  /// first in first out: what a client sends often lets chunks go (it takes a response, or leaves), what an upstream
  /// sends mostly takes them, and there may be many more of those.
  void park(Socket& socket);
  void unpark(Socket& socket);

  /// Counters of one worker. Written by its own thread only.
  struct Counters {
    uint64_t batches = 0;
    uint64_t completions = 0;
    uint64_t receives = 0;
    uint64_t sends = 0;
    uint64_t no_buffers = 0;  ///< Receives that found their group empty.
    uint64_t zero_copy_sends = 0;
    uint64_t zero_copy_copied = 0;  ///< ... which the kernel copied all the same.
    uint64_t parked = 0;            ///< Sockets parked right now.
    uint64_t packed = 0;            ///< Small pieces copied together behind a slow peer.
  };
  Counters& counters() { return counters_; }

  /// What one connection may hold of the chunk memory, `most_bytes` at most: a share of what is left. However many take
  /// all they can, the shares shrink faster than memory does, and something is left for the others.
  size_t share(size_t most_bytes) const {
    const size_t left = pool_.headroom_bytes();
    const size_t share = left > 0 ? std::max(left / kShareOfRest, kShareMin)
                                  : std::max(pool_.reserved_headroom_bytes() / kShareOfReserve, kReserveShareMin);
    return std::min(most_bytes, share);
  }
  /// Whether all of the budget but its reserve is in use. Those who hold more than share() have to give some back.
  bool in_reserve() const { return pool_.headroom_bytes() == 0; }

  /// Whether receives wait because the chunk budget is used up (and not only the ring, for a moment).
  bool short_of_memory() const {
    return in_reserve() ||
           (counters_.parked > 0 && pool_.headroom_bytes() < std::max(kMaxChunkBytes, counters_.parked * kParkedBytes));
  }
  /// Whether one that is stuck with data should give way now: memory is short, and no other just has.
  bool should_shed_load();

  /// The chunk of the socket with this descriptor, in the read modes where sockets have one.
  ChunkRef& own_chunk(int fd) {
    const auto index = static_cast<size_t>(fd);
    if (index >= own_chunks_.size()) own_chunks_.resize(index + 1);
    return own_chunks_[index];
  }

  /// Sends of at least so many bytes go out zero-copy.
  size_t zero_copy_bytes() const { return zero_copy_bytes_; }

 private:
  // What each of the receives that wait should find.
  static constexpr size_t kParkedBytes = size_t{16} * 1024;
  // share(): 1/32 of what is left, as long as there is something besides the reserve. A thousand connections that take
  // 1/1024 of the reserve each leave a third of it.
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
  void serve_sockets();
  static void run_all(std::vector<Deferred>& calls);
  void resume_parked();
  void set_ring_timer();
  void decay();

  static inline constinit thread_local Worker* current_ = nullptr;

  Options options_;
  ChunkPool pool_;
  std::unique_ptr<Ring> ring_;
  std::unique_ptr<BufferRing> small_;
  std::unique_ptr<BufferRing> large_;
  TimerWheel timers_;
  YieldingQueue yielding_tasks_;
  Timer decay_timer_;
  uint64_t last_age_ms_ = 0;
  uint64_t shed_load_ms_ = 0;
  uint64_t ring_timer_due_ms_ = UINT64_MAX;
  Counters counters_;
  uint32_t batch_ = 0;
  bool stopping_ = false;
  size_t zero_copy_bytes_;
  std::vector<ChunkRef> own_chunks_;  // By descriptor.
  std::vector<Socket*> service_;
  std::vector<Deferred> deferred_;
  std::vector<Deferred> before_sends_;
  struct ParkedList {
    Socket* first = nullptr;
    Socket* last = nullptr;
  };
  ParkedList& line_of(const Socket& socket);
  // For the small and the large group; of accepted connections, and of our own.
  ParkedList parked_[2][2];
  bool outgoing_next_ = false;  // Whose turn it is.
};

}  // namespace sluice
