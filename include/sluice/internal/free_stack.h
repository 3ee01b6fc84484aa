#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "sluice/chunk.h"
#include "sluice/internal/check.h"
#include "sluice/internal/metadata_memory.h"

namespace sluice::inline v0_1 {

/// Free chunks of one tier, last in, first out, so that the warmest chunk is reused first. The stack also tracks which
/// chunks at the bottom stayed unused for two aging periods, like the victim cache of Go's sync.Pool with a timer in
/// place of the garbage collector.
///
///     bottom  [ discarded | old enough to discard | unused this period | in motion ]  top
///             0        discarded_              old_                low_end_        end_
///
/// The stack records the slab of each discarded chunk, so that its user can count the unused chunks of a slab without
/// visiting each chunk and without work in push or pop: `next_to_discard` adds one, and `forget_taken` reports those
/// taken since. A discarded chunk's `capacity` holds its index, which `set_aside` uses to find it.
class FreeStack {
 public:
  bool empty() const { return end_ == chunks_.get(); }
  size_t size() const { return static_cast<size_t>(end_ - chunks_.get()); }

  /// Makes room for `count` chunks in total, so that push never allocates. Amortized: at least doubles.
  void reserve(size_t count) {
    if (count > room_) move_to_room(std::max(count, 2 * room_));
  }
  /// Releases room that far exceeds `count` chunks. Precondition: count >= size(), and forget_taken returned true.
  void shrink(size_t count) {
    if (room_ > std::max(4 * count, kKeepRoom)) move_to_room(std::max(2 * count, kKeepRoom));
  }

  /// Precondition: there is room; see reserve.
  void push(Chunk* chunk) {
    SLUICE_DCHECK(size() < room_);
    *end_++ = chunk;
  }
  /// Like push, but puts the chunk at a position that `random` selects among the chunks in motion.
  void push_anywhere(Chunk* chunk, size_t random) {
    push(chunk);
    std::swap(chunks_[low_water() + random % (size() - low_water())], end_[-1]);
  }

  /// Precondition: not empty.
  Chunk* pop() {
    Chunk** const end = --end_;
    if (end < low_end_) low_end_ = end;
    return *end;
  }

  /// Ends an aging period. Chunks unused in this period and the one before become old.
  void age() {
    discarded_ = discarded_count();
    old_ = std::min(victims_, low_water());
    victims_ = low_water();
    low_end_ = end_;
  }

  /// Calls `taken(slab)` for each chunk that was discarded and then taken, until it returns false. True if all were
  /// reported, which is a precondition of several functions below.
  template <typename Taken>
  bool forget_taken(Taken taken) {
    discarded_ = discarded_count();
    while (slab_count_ > discarded_) {
      if (!taken(slabs_[--slab_count_])) return slab_count_ == discarded_;
    }
    return true;
  }

  /// Returns the next old chunk whose pages have not been discarded, or null. The chunk stays on the stack.
  /// Precondition: forget_taken returned true.
  Chunk* next_to_discard() {
    SLUICE_DCHECK(slab_count_ == discarded_ && discarded_ <= low_water());
    if (discarded_ >= old_count()) return nullptr;
    Chunk* chunk = chunks_[discarded_];
    chunk->capacity = discarded_++;
    slabs_[slab_count_++] = chunk->slab;
    return chunk;
  }

  /// Removes a discarded chunk. Call `drop_aside` afterwards to make the stack consistent. Precondition: forget_taken
  /// returned true, and next_to_discard returned the chunk.
  void set_aside(const Chunk* chunk) {
    const size_t place = chunk->capacity;
    SLUICE_DCHECK(place < discarded_ && chunks_[place] == chunk);
    --discarded_;
    chunks_[place] = chunks_[discarded_];
    chunks_[place]->capacity = place;
    slabs_[place] = slabs_[discarded_];
    --slab_count_;
    ++aside_;
  }
  void drop_aside() {
    Chunk** const gap = chunks_.get() + discarded_;
    std::copy(gap + aside_, end_, gap);
    end_ -= aside_;
    for (size_t* mark : {&old_, &victims_}) *mark = std::min(*mark, low_water()) - aside_;
    low_end_ -= aside_;
    aside_ = 0;
  }

  /// Number of chunks unused for two periods.
  size_t old_count() const { return std::min(old_, low_water()); }
  size_t discarded_count() const { return std::min(discarded_, low_water()); }
  Chunk* at(size_t index) const { return chunks_[index]; }

  /// Removes each chunk for which `gone(chunk)` is true; the others keep their order. Precondition: forget_taken
  /// returned true.
  template <typename Predicate>
  void remove_if(Predicate gone) {
    std::array<size_t, 4> marks{discarded_count(), old_count(), std::min(victims_, low_water()), low_water()};
    const std::array<size_t, 4> before = marks;
    Chunk** kept = chunks_.get();
    for (size_t i = 0, count = size(); i < count; ++i) {
      if (!gone(chunks_[i])) {
        *kept++ = chunks_[i];
        continue;
      }
      for (size_t m = 0; m < marks.size(); ++m) marks[m] -= i < before[m];
    }
    end_ = kept;
    discarded_ = marks[0], old_ = marks[1], victims_ = marks[2];
    low_end_ = chunks_.get() + marks[3];
    slab_count_ = discarded_;
    for (size_t i = 0; i < discarded_; ++i) {
      chunks_[i]->capacity = i;
      slabs_[i] = chunks_[i]->slab;
    }
  }

 private:
  static constexpr size_t kKeepRoom = 1024;

  size_t low_water() const { return static_cast<size_t>(low_end_ - chunks_.get()); }

  void move_to_room(size_t room) {
    MetadataMemory<Chunk*> chunks = allocate_metadata<Chunk*>(room);
    MetadataMemory<uint16_t> slabs = allocate_metadata<uint16_t>(room);
    SLUICE_CHECK(chunks && slabs);
    Chunk** const end = std::copy(chunks_.get(), end_, chunks.get());
    low_end_ = chunks.get() + low_water();
    end_ = end;
    std::copy(slabs_.get(), slabs_.get() + slab_count_, slabs.get());
    chunks_ = std::move(chunks);
    slabs_ = std::move(slabs);
    room_ = room;
  }

  MetadataMemory<Chunk*> chunks_;
  Chunk** end_ = nullptr;
  Chunk** low_end_ = nullptr;  // The lowest value of `end_` in this period.
  size_t discarded_ = 0;
  size_t old_ = 0;
  size_t victims_ = 0;
  size_t room_ = 0;
  size_t aside_ = 0;  // Empty slots after the discarded chunks; 0 between calls.
  // The slabs of the discarded chunks, in order, followed by those of chunks taken since.
  MetadataMemory<uint16_t> slabs_;
  size_t slab_count_ = 0;
};

}  // namespace sluice::inline v0_1
