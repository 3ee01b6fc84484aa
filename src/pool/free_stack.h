#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <vector>

#include "pool/check.h"
#include "pool/chunk.h"

namespace sluice {

/// Free chunks of one tier, last in first out, so that the warmest is reused first. It also knows which chunks lay
/// unused at the bottom for two ageing periods: sync.Pool's victim cache, with a timer in the place of the garbage
/// collector.
///
///     bottom  [ discarded | old enough to discard | unused this period | in motion ]  top
///             0        discarded_              old_                low_water_      size
class FreeStack {
 public:
  bool empty() const { return chunks_.empty(); }
  size_t size() const { return chunks_.size(); }

  /// Makes room for `count` chunks in all, so that push never allocates. Amortised: at least doubles.
  void reserve(size_t count) {
    if (count > chunks_.capacity()) chunks_.reserve(std::max(count, 2 * chunks_.capacity()));
  }

  void push(Chunk* chunk) {
    SLUICE_DCHECK(chunks_.size() < chunks_.capacity());
    chunks_.push_back(chunk);
  }

  /// Precondition: not empty.
  Chunk* pop() {
    Chunk* chunk = chunks_.back();
    chunks_.pop_back();
    low_water_ = std::min(low_water_, chunks_.size());
    return chunk;
  }

  /// Ends an ageing period: what lay still in this one and in the one before becomes old.
  void age() {
    discarded_ = std::min(discarded_, low_water_);
    old_ = std::min(victims_, low_water_);
    victims_ = low_water_;
    low_water_ = chunks_.size();
  }

  /// The next old chunk whose pages were not discarded yet, or null. The chunk stays on the stack.
  Chunk* next_to_discard() {
    discarded_ = std::min(discarded_, low_water_);
    return discarded_ < std::min(old_, low_water_) ? chunks_[discarded_++] : nullptr;
  }

  /// The chunks that nobody touched for two periods.
  size_t old_count() const { return std::min(old_, low_water_); }
  Chunk* at(size_t index) const { return chunks_[index]; }

  /// Removes each chunk for which `gone(chunk)` holds, keeping the order of the others.
  template <typename Predicate>
  void remove_if(Predicate gone) {
    const std::array<size_t*, 4> marks{&discarded_, &old_, &victims_, &low_water_};
    std::array<size_t, 4> removed{};  // Below each mark.
    size_t kept = 0;
    for (size_t i = 0; i < chunks_.size(); ++i) {
      if (!gone(chunks_[i])) {
        chunks_[kept++] = chunks_[i];
        continue;
      }
      for (size_t m = 0; m < marks.size(); ++m) removed[m] += i < std::min(*marks[m], low_water_);
    }
    chunks_.resize(kept);
    for (size_t m = 0; m < marks.size(); ++m) *marks[m] = std::min(*marks[m], low_water_) - removed[m];
  }

 private:
  std::vector<Chunk*> chunks_;
  size_t discarded_ = 0;
  size_t old_ = 0;
  size_t victims_ = 0;
  size_t low_water_ = 0;
};

}  // namespace sluice
