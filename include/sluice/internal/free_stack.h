#pragma once

#include <cstddef>
#include <cstdint>

#include "sluice/chunk.h"
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
  /// The number of chunks for which there is room.
  size_t room() const { return room_; }

  /// Makes room for `count` chunks in total, so that push never allocates. Amortized: at least doubles.
  void reserve(size_t count);
  /// Releases room that far exceeds `count` chunks. Precondition: count >= size(), and forget_taken returned true.
  void shrink(size_t count);

  /// Precondition, which is not checked: there is room; see reserve.
  void push(Chunk* chunk) { *end_++ = chunk; }
  /// Like push, but puts the chunk at a position that `random` selects among the chunks in motion.
  void push_anywhere(Chunk* chunk, size_t random);

  /// Precondition: not empty.
  Chunk* pop() {
    Chunk** const end = --end_;
    if (end < low_end_) low_end_ = end;
    return *end;
  }

  /// Ends an aging period. Chunks unused in this period and the one before become old.
  void age();

  /// Calls `taken(slab)` for each chunk that was discarded and then taken, until it returns false. True if all were
  /// reported, which is a precondition of several functions below.
  template <typename Taken>
  bool forget_taken(Taken taken) {
    return forget_taken_by([](void* to, uint16_t slab) -> bool { return (*static_cast<Taken*>(to))(slab); }, &taken);
  }

  /// Returns the next old chunk whose pages have not been discarded, or null. The chunk stays on the stack.
  /// Precondition: forget_taken returned true.
  Chunk* next_to_discard();

  /// Removes a discarded chunk. Call `drop_aside` afterwards to make the stack consistent. Precondition: forget_taken
  /// returned true, and next_to_discard returned the chunk.
  void set_aside(const Chunk* chunk);
  void drop_aside();

  /// Number of chunks unused for two periods.
  size_t old_count() const { return old_ < low_water() ? old_ : low_water(); }
  size_t discarded_count() const { return discarded_ < low_water() ? discarded_ : low_water(); }
  Chunk* at(size_t index) const { return chunks_[index]; }

  /// Removes each chunk for which `gone(chunk)` is true; the others keep their order. Precondition: forget_taken
  /// returned true.
  template <typename Predicate>
  void remove_if(Predicate gone) {
    remove_by([](void* to, const Chunk* chunk) -> bool { return (*static_cast<Predicate*>(to))(chunk); }, &gone);
  }

 private:
  static constexpr size_t kKeepRoom = 1024;

  size_t low_water() const { return static_cast<size_t>(low_end_ - chunks_.get()); }
  void move_to_room(size_t room);
  bool forget_taken_by(bool (*taken)(void* to, uint16_t slab), void* to);
  void remove_by(bool (*gone)(void* to, const Chunk* chunk), void* to);

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
