#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "proxy/profile/folded_stacks.h"
#include "proxy/profile/profile_turn.h"
#include "proxy/profile/sample_ring.h"
#include "sluice/chunk_pool.h"

namespace sluice {

/// Samples where threads take memory: chunks of pools, and blocks of the heap where the program has hooks for that
/// (proxy/cli/heap_hooks.cc). What is sampled is the memory that is taken, whether it is given back or not.
///
/// Each byte has the same chance to be sampled. A thread takes a sample after a number of bytes that is exponentially
/// distributed around kMeanBytes, as in tcmalloc, jemalloc and Go. So an allocation of `n` bytes is sampled with
/// probability 1 - exp(-n / kMeanBytes), and stands for as many allocations as the inverse of that: sums are unbiased
/// estimates (jemalloc's doc_internal/PROFILING_INTERNALS.md has the derivation).
///
/// One profile at a time in a process. For one thread, apart from the static functions.
class AllocationSampler {
 public:
  static constexpr uint64_t kMeanBytes = uint64_t{128} * 1024;
  /// Threads beyond that, and beyond kSpareThreads that begin during the profile, are not sampled: what they would
  /// sample is lost.
  static constexpr size_t kMaxThreads = 256;
  static constexpr size_t kSpareThreads = 8;

  /// What the sums are: bytes, or allocations.
  enum class Unit : uint8_t { kBytes, kCount };
  /// The factor of FoldedStacks::text() that gives them.
  static constexpr double kScale = 0.001;

  /// Begins to sample the heap. Pools are sampled as soon as follow() is called for them. AlreadyExists: another
  /// profile is in progress. Other errors name what the kernel refuses.
  static absl::StatusOr<std::unique_ptr<AllocationSampler>> start(Unit unit);
  /// Ends it, and waits until no thread writes to a ring any more. follow() is to be called again for each pool.
  ~AllocationSampler();
  AllocationSampler(const AllocationSampler&) = delete;
  AllocationSampler& operator=(const AllocationSampler&) = delete;

  /// Takes what the threads have sampled: stacks of `THREAD;buffers` and `THREAD;heap`. To be called some times per
  /// second: the rings are small.
  void collect(FoldedStacks& stacks);
  /// Ends the profile, and takes the rest.
  void finish(FoldedStacks& stacks);
  /// Bytes that the samples stand for, without those that are lost.
  uint64_t total_bytes() const { return total_bytes_; }

  /// Makes a pool report its chunks if a sampler exists, else lets it run as before. On the pool's home thread.
  static void follow(ChunkPool& pool);
  /// Whether the heap's hooks are to report.
  static bool samples_heap() { return samples_heap_.load(std::memory_order_relaxed); }
  /// Reports a block of the heap. `caller` is an address on the calling stack: frames below it are left out. It takes
  /// no lock, allocates nothing, and may be called inside of malloc(). Not for signal handlers.
  static void note_heap(size_t bytes, const void* caller);

 private:
  struct Part {
    explicit Part(size_t words) : ring(words) {}

    SampleRing ring;
    std::atomic<pid_t> thread{0};  // 0: no thread has it.
    std::string name;              // For the collecting thread, like the next one.
    uint64_t lost_seen = 0;
  };
  struct Profile;
  enum class Kind : uint64_t { kBuffer, kHeap };
  AllocationSampler(ProfileTurn turn, Unit unit, size_t threads);
  static void note_chunk(void* context, size_t bytes, const void* caller);
  static void note(size_t bytes, Kind kind, const void* caller);
  static void sample(size_t bytes, Kind kind, const void* caller);
  void stop();
  void take(Part& part, FoldedStacks& stacks);

  // The profile in progress, or null; and how many threads may be using it.
  static inline std::atomic<Profile*> current_{nullptr};
  static inline std::atomic<uint32_t> users_{0};
  static inline constinit std::atomic<bool> samples_heap_{false};

  const ProfileTurn turn_;
  const Unit unit_;
  const std::unique_ptr<Profile> profile_;
  uint64_t total_bytes_ = 0;
  uint64_t lost_seen_ = 0;
};

}  // namespace sluice
