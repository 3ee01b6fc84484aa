#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

namespace sluice {

/// Samples of one thread on their way to the thread that collects them: call stacks with a weight. It has a fixed size;
/// a sample that does not fit is counted and lost. put() is async-signal-safe.
class SampleRing {
 public:
  static constexpr size_t kMaxFrames = 64;

  /// `words`: a power of two, the size in units of 8 bytes. Memory is used as it is written.
  explicit SampleRing(size_t words) : mask_(words - 1), words_(std::make_unique_for_overwrite<uint64_t[]>(words)) {}

  /// Adds a sample, for the one thread that produces them. At most kMaxFrames.
  void put(std::span<const uintptr_t> frames, uint64_t weight) {
    const size_t head = head_.load(std::memory_order_relaxed);
    const size_t needs = frames.size() + 2;
    if (mask_ + 1 - (head - tail_.load(std::memory_order_acquire)) < needs) {
      lost_.store(lost_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
      return;
    }
    words_[head & mask_] = frames.size();
    words_[(head + 1) & mask_] = weight;
    for (size_t i = 0; i < frames.size(); ++i) words_[(head + 2 + i) & mask_] = frames[i];
    head_.store(head + needs, std::memory_order_release);
  }

  /// Takes the oldest sample, for the one thread that collects them. Returns the number of frames; 0 if there is none.
  size_t take(std::span<uintptr_t, kMaxFrames> frames, uint64_t& weight) {
    const size_t tail = tail_.load(std::memory_order_relaxed);
    if (tail == head_.load(std::memory_order_acquire)) return 0;
    const size_t count = words_[tail & mask_];
    weight = words_[(tail + 1) & mask_];
    for (size_t i = 0; i < count; ++i) frames[i] = words_[(tail + 2 + i) & mask_];
    tail_.store(tail + count + 2, std::memory_order_release);
    return count;
  }

  uint64_t lost() const { return lost_.load(std::memory_order_relaxed); }

 private:
  const size_t mask_;
  const std::unique_ptr<uint64_t[]> words_;
  std::atomic<size_t> head_{0}, tail_{0};
  std::atomic<uint64_t> lost_{0};
};

}  // namespace sluice
