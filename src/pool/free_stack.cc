#include "sluice/internal/free_stack.h"

#include <algorithm>
#include <array>
#include <utility>

#include "sluice/internal/check.h"

namespace sluice::inline v0_1 {

void FreeStack::reserve(size_t count) {
  if (count > room_) move_to_room(std::max(count, 2 * room_));
}

void FreeStack::shrink(size_t count) {
  if (room_ > std::max(4 * count, kKeepRoom)) move_to_room(std::max(2 * count, kKeepRoom));
}

void FreeStack::move_to_room(size_t room) {
  MetadataMemory<Chunk*> chunks(room);
  MetadataMemory<uint16_t> slabs(room);
  SLUICE_CHECK(chunks && slabs);
  Chunk** const end = std::copy(chunks_.get(), end_, chunks.get());
  low_end_ = chunks.get() + low_water();
  end_ = end;
  std::copy(slabs_.get(), slabs_.get() + slab_count_, slabs.get());
  chunks_ = std::move(chunks);
  slabs_ = std::move(slabs);
  room_ = room;
}

void FreeStack::push_anywhere(Chunk* chunk, size_t random) {
  push(chunk);
  std::swap(chunks_[low_water() + random % (size() - low_water())], end_[-1]);
}

void FreeStack::age() {
  discarded_ = discarded_count();
  old_ = std::min(victims_, low_water());
  victims_ = low_water();
  low_end_ = end_;
}

bool FreeStack::forget_taken_by(bool (*taken)(void* to, uint16_t slab), void* to) {
  discarded_ = discarded_count();
  while (slab_count_ > discarded_) {
    if (!taken(to, slabs_[--slab_count_])) return slab_count_ == discarded_;
  }
  return true;
}

Chunk* FreeStack::next_to_discard() {
  SLUICE_DCHECK(slab_count_ == discarded_ && discarded_ <= low_water());
  if (discarded_ >= old_count()) return nullptr;
  Chunk* chunk = chunks_[discarded_];
  chunk->capacity = discarded_++;
  slabs_[slab_count_++] = chunk->slab;
  return chunk;
}

void FreeStack::set_aside(const Chunk* chunk) {
  const size_t place = chunk->capacity;
  SLUICE_DCHECK(place < discarded_ && chunks_[place] == chunk);
  --discarded_;
  chunks_[place] = chunks_[discarded_];
  chunks_[place]->capacity = place;
  slabs_[place] = slabs_[discarded_];
  --slab_count_;
  ++aside_;
}

void FreeStack::drop_aside() {
  Chunk** const gap = chunks_.get() + discarded_;
  std::copy(gap + aside_, end_, gap);
  end_ -= aside_;
  for (size_t* mark : {&old_, &victims_}) *mark = std::min(*mark, low_water()) - aside_;
  low_end_ -= aside_;
  aside_ = 0;
}

void FreeStack::remove_by(bool (*gone)(void* to, const Chunk* chunk), void* to) {
  std::array<size_t, 4> marks{discarded_count(), old_count(), std::min(victims_, low_water()), low_water()};
  const std::array<size_t, 4> before = marks;
  Chunk** kept = chunks_.get();
  for (size_t i = 0, count = size(); i < count; ++i) {
    if (!gone(to, chunks_[i])) {
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

}  // namespace sluice::inline v0_1
