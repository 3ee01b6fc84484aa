#pragma once

// Support for the rows of the bench.
//
// A row is the same work done by several subjects; its benches are named row/subject or row/subject/argument, and
// bench/compare-iobuf compares them. The subjects here: sluice, malloc, and absl::Cord.

#include <benchmark/benchmark.h>
#include <time.h>

#include <chrono>
#include <cstddef>
#include <cstring>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/cord.h"
#include "absl/strings/cord_buffer.h"
#include "sluice/buffer.h"
#include "sluice/chunk_pool.h"

namespace sluice::bench {

inline constexpr size_t kPieceBytes = 4096;

/// A pool that is current while a bench runs. It must outlive everything that is taken from it.
class Home {
 public:
  Home() : use_(&pool_) {}

  ChunkPool& pool() { return pool_; }
  /// A fresh chunk, `bytes` bytes of which are used. Nothing is written to it.
  Lease lease(size_t bytes = kPieceBytes) {
    Lease lease = Lease::allocate(pool_, bytes);
    lease.grow_back(bytes);
    return lease;
  }
  View view(size_t bytes = kPieceBytes) { return lease(bytes).freeze(); }

 private:
  ChunkPool pool_{{.budget_bytes = size_t{1} << 30}};
  ChunkPool::Use use_;
};

/// A buffer of `windows` windows, each a view of all of `piece`.
inline Buffer buffer_of(View& piece, size_t windows) {
  Buffer buffer;
  for (size_t i = 0; i < windows; ++i) buffer.append(piece.clone());
  return buffer;
}

/// Memory of a Cord: up to 13 bytes less than requested, since it includes the header.
inline absl::CordBuffer cord_memory(size_t bytes) {
  return bytes <= absl::CordBuffer::kDefaultLimit ? absl::CordBuffer::CreateWithDefaultLimit(bytes)
                                                  : absl::CordBuffer::CreateWithCustomLimit(bytes, bytes);
}

/// A cord over one fresh piece of memory, all of it used. Nothing is written to it.
inline absl::Cord cord(size_t bytes = kPieceBytes) {
  absl::CordBuffer memory = cord_memory(bytes);
  memory.SetLength(memory.capacity());
  absl::Cord cord;
  cord.Append(std::move(memory));
  return cord;
}

/// A cord of `pieces` references to `piece`.
inline absl::Cord cord_of(const absl::Cord& piece, size_t pieces) {
  absl::Cord cord;
  for (size_t i = 0; i < pieces; ++i) cord.Append(piece);
  return cord;
}

/// Repeats `round`, which does its work `times` times. The first rounds, in which pages are touched and lists grow, do
/// not count.
template <typename Round>
void run(benchmark::State& state, size_t times, Round round) {
  for (int i = 0; i < 4; ++i) round();
  while (state.KeepRunningBatch(static_cast<int64_t>(times))) round();
}
template <typename Round>
void run(benchmark::State& state, Round round) {
  for (int i = 0; i < 4; ++i) round();
  for (auto _ : state) round();
}

/// Times only `work(i)` for each i below `times`, not `prepare()` before and `clean()` after it. For UseManualTime.
template <typename Prepare, typename Work, typename Clean>
void run_timed(benchmark::State& state, size_t times, Prepare prepare, Work work, Clean clean) {
  const auto round = [&] {
    prepare();
    const auto start = std::chrono::steady_clock::now();
    for (size_t i = 0; i < times; ++i) work(i);
    benchmark::ClobberMemory();
    const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - start;
    clean();
    return passed.count();
  };
  for (int i = 0; i < 4; ++i) round();
  while (state.KeepRunningBatch(static_cast<int64_t>(times))) state.SetIterationTime(round());
}

/// The CPU time of the calling thread so far.
inline double thread_cpu_s() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

/// The argument of a bench.
inline size_t argument(const benchmark::State& state) { return static_cast<size_t>(state.range(0)); }

}  // namespace sluice::bench
