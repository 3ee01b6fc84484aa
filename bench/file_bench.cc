// Bodies in a file: stored, read back and released, compared with one temporary file for each body.
//
//   build/release/bench/file_bench --benchmark_repetitions=5 --benchmark_report_aggregates_only=true
//
// Each round does both variants, one after the other; `ratio` is how many times longer the second took, by the medians.
// Only ratios within one run are meaningful. The files are made in $SLUICE_FILE_DIRECTORY, or /var/tmp.

#include <benchmark/benchmark.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "sluice/spill.h"

namespace sluice {
namespace {

std::string directory() {
  const char* given = std::getenv("SLUICE_FILE_DIRECTORY");
  return given ? given : "/var/tmp";
}

class Timer {
 public:
  double seconds() const { return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count(); }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

// Bodies are read back into it, 64 KiB at a time.
std::array<std::byte, kMaxChunkBytes> scratch;

void check(bool condition, const char* what) {
  if (condition) return;
  std::perror(what);
  std::abort();
}

class TemporaryFile {
 public:
  TemporaryFile() = default;
  TemporaryFile(const std::string& directory, Buffer body)
      : fd_(open(directory.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600)) {
    check(fd_ >= 0, "open");
    std::array<iovec, 64> pieces;
    while (!body.empty()) {
      const size_t count = body.fill_iovecs(pieces);
      const ssize_t written = writev(fd_, pieces.data(), static_cast<int>(count));
      check(written > 0, "writev");
      body.trim_front(static_cast<size_t>(written));
    }
  }
  TemporaryFile(TemporaryFile&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  TemporaryFile& operator=(TemporaryFile&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~TemporaryFile() {
    if (fd_ >= 0) close(fd_);
  }
  void read_back() const {
    ssize_t got = 0;
    for (off_t at = 0; (got = pread(fd_, scratch.data(), scratch.size(), at)) > 0; at += got)
      benchmark::ClobberMemory();
    check(got == 0, "pread");
  }

 private:
  int fd_ = -1;
};

class PoolBody {
 public:
  PoolBody() = default;
  PoolBody(FilePool& files, Buffer body) : body_(std::move(body)) {
    FileError error;
    if (spill(body_, files, &error)) return;
    std::fprintf(stderr, "%s\n", error.message.c_str());
    std::abort();
  }
  void read_back() {
    for (std::span<const std::byte> window : body_.windows()) {
      std::memcpy(scratch.data(), window.data(), window.size());
      benchmark::ClobberMemory();
    }
  }

 private:
  Buffer body_;
};

// A body is stored; the oldest held one is read back and released. Returns the seconds that this took.
template <typename Body, typename Store>
double turn(std::vector<Body>& held, size_t round, Store store) {
  const Timer timer;
  Body& place = held[round % held.size()];
  if (round >= held.size()) place.read_back();
  place = Body();
  place = store();
  return timer.seconds();
}

double median_us(std::vector<double>& seconds) {
  const auto middle = seconds.begin() + static_cast<ptrdiff_t>(seconds.size() / 2);
  std::nth_element(seconds.begin(), middle, seconds.end());
  return *middle * 1e6;
}

// Medians: a round may coincide with the disk's own work.
void compare(benchmark::State& state, const char* first, std::vector<double>& first_seconds, const char* second,
             std::vector<double>& second_seconds) {
  const double first_us = median_us(first_seconds), second_us = median_us(second_seconds);
  state.counters[first] = first_us;
  state.counters[second] = second_us;
  state.counters["ratio"] = second_us / first_us;
}

FilePool::Options options() { return {.directory = directory(), .limit_bytes = size_t{1} << 30}; }

// Bodies are added and released while the argument's number is held.
void BM_Bodies(benchmark::State& state) {
  const size_t bytes = static_cast<size_t>(state.range(0)), held = static_cast<size_t>(state.range(1));
  const std::string path = directory();
  ChunkPool pool({.budget_bytes = 64 << 20});
  ChunkPool::Use use(&pool);
  FilePool files(options());
  if (!files.ok()) return state.SkipWithError(files.error().message.c_str());
  Buffer body;
  check(body.grow(pool, bytes, std::byte{1}), "grow");
  std::vector<TemporaryFile> temporary(held);
  std::vector<PoolBody> pooled(held);
  std::vector<double> temporary_seconds, pool_seconds;
  size_t round = 0;
  const auto both = [&] {
    temporary_seconds.push_back(turn(temporary, round, [&] { return TemporaryFile(path, body.clone()); }));
    pool_seconds.push_back(turn(pooled, round, [&] { return PoolBody(files, body.clone()); }));
    ++round;
  };
  while (round < 2 * held) both();
  temporary_seconds.clear();
  pool_seconds.clear();
  for (auto _ : state) {
    both();
    state.SetIterationTime(pool_seconds.back());
  }
  compare(state, "pool_us", pool_seconds, "tempfile_us", temporary_seconds);
}
BENCHMARK(BM_Bodies)
    ->ArgNames({"bytes", "held"})
    ->ArgsProduct({{64 << 10, 1 << 20, 16 << 20}, {1, 16}})
    ->UseManualTime()
    ->MinTime(0.2);

// A body is stored and released: its blocks are reused by the next one, or are returned and reserved again each time.
void BM_GivenBackAtOnce(benchmark::State& state) {
  ChunkPool pool({.budget_bytes = 64 << 20});
  ChunkPool::Use use(&pool);
  FilePool kept(options()), given_back(options());
  if (!kept.ok()) return state.SkipWithError(kept.error().message.c_str());
  Buffer body;
  check(body.grow(pool, static_cast<size_t>(state.range(0)), std::byte{1}), "grow");
  std::vector<double> kept_seconds, given_back_seconds;
  for (auto _ : state) {
    const Timer first;
    PoolBody(kept, body.clone());
    kept_seconds.push_back(first.seconds());
    const Timer second;
    PoolBody(given_back, body.clone());
    given_back.trim();
    given_back_seconds.push_back(second.seconds());
    state.SetIterationTime(kept_seconds.back());
  }
  compare(state, "kept_us", kept_seconds, "given_back_us", given_back_seconds);
}
BENCHMARK(BM_GivenBackAtOnce)
    ->ArgName("bytes")
    ->RangeMultiplier(16)
    ->Range(64 << 10, 16 << 20)
    ->UseManualTime()
    ->Iterations(50);

// Fresh blocks filled by a system call, or by stores that fault in page after page.
void BM_FirstStore(benchmark::State& state) {
  const size_t count = static_cast<size_t>(state.range(0)) / kMaxChunkBytes;
  FilePool files(options());
  if (!files.ok()) return state.SkipWithError(files.error().message.c_str());
  std::vector<double> write_seconds, store_seconds;
  for (auto _ : state) {
    for (std::vector<double>* seconds : {&write_seconds, &store_seconds}) {
      std::vector<ChunkRef> chunks;
      for (size_t i = 0; i < count; ++i) chunks.push_back(ChunkRef::take(files.get(kMaxChunkBytes)));
      const Timer timer;
      for (const ChunkRef& chunk : chunks) {
        iovec piece{scratch.data(), scratch.size()};
        if (seconds == &store_seconds) {
          std::memcpy(chunk.data(), scratch.data(), scratch.size());
        } else {
          check(files.write(chunk.data(), {&piece, 1}), "write");
        }
      }
      seconds->push_back(timer.seconds());
      chunks.clear();
      files.trim();
    }
    state.SetIterationTime(write_seconds.back());
  }
  compare(state, "write_us", write_seconds, "store_us", store_seconds);
}
BENCHMARK(BM_FirstStore)
    ->ArgName("bytes")
    ->RangeMultiplier(16)
    ->Range(64 << 10, 16 << 20)
    ->UseManualTime()
    ->Iterations(50);

// The cost of a chunk besides its bytes.
void BM_ChunkGetPut(benchmark::State& state) {
  FilePool files(options());
  if (!files.ok()) return state.SkipWithError(files.error().message.c_str());
  for (auto _ : state) chunk_unref(files.get(static_cast<size_t>(state.range(0))));
}
BENCHMARK(BM_ChunkGetPut)->ArgName("bytes")->Arg(4096)->Arg(65536);

}  // namespace
}  // namespace sluice
