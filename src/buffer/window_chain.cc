#include "sluice/internal/window_chain.h"

#include <cstring>
#include <utility>

#include "sluice/chunk_pool.h"
#include "sluice/internal/check.h"

namespace sluice::inline v0_1 {

WindowChain::Block* WindowChain::new_block(uint32_t at) {
  ChunkPool* pool = ChunkPool::current();
  Chunk* chunk = pool ? pool->get_metadata(sizeof(Block)) : heap_chunk(sizeof(Block));
  Block* block = reinterpret_cast<Block*>(chunk->data);
  block->chunk = chunk;
  block->previous = block->next = nullptr;
  block->bytes = 0;
  block->begin = block->end = at;
  return block;
}

void WindowChain::link_back(Block* block) {
  block->previous = blocks_.last;
  blocks_.last = blocks_.last->next = block;
}

void WindowChain::link_front(Block* block) {
  block->next = blocks_.first;
  blocks_.first = blocks_.first->previous = block;
}

// Precondition: `block` is the first or the last.
void WindowChain::drop(Block* block) {
  if (blocks_.first == blocks_.last) {
    reset();
  } else if (block == blocks_.first) {
    blocks_.first = block->next;
    blocks_.first->previous = nullptr;
  } else {
    blocks_.last = block->previous;
    blocks_.last->next = nullptr;
  }
  chunk_unref(block->chunk);
}

// Moves the inline windows to a block, starting at its slot `at`.
void WindowChain::spill(uint32_t at) {
  Block* block = new_block(at);
  for (uint32_t i = 0; i < count_; ++i) block->windows[block->end++] = inline_at(i);
  block->bytes = bytes_;
  blocks_ = {block, block};
  head_ = 0;
  spilled_ = 1;
}

// Returns the last block, or a new one if the last has fewer than `windows` free slots at its end. Precondition:
// windows <= kBlockWindows.
WindowChain::Block& WindowChain::block_with_room(uint32_t windows) {
  if (!spilled_) spill(0);
  if (blocks_.last->end + windows > kBlockWindows) link_back(new_block(0));
  return *blocks_.last;
}

void WindowChain::push_back_to_block(Window window) {
  SLUICE_CHECK(count_ < 0x7fffffff);
  Block& block = block_with_room(1);
  block.windows[block.end++] = window;
  block.bytes += window.size;
  bytes_ += window.size;
  set_count(count_ + 1);
}

void WindowChain::push_front_to_block(Window window) {
  SLUICE_CHECK(count_ < 0x7fffffff);
  if (!spilled_) spill(kBlockWindows - kInline);
  if (blocks_.first->begin == 0) link_front(new_block(kBlockWindows));
  Block& block = *blocks_.first;
  block.windows[--block.begin] = window;
  block.bytes += window.size;
  bytes_ += window.size;
  set_count(count_ + 1);
}

Window WindowChain::pop_front_of_block() {
  Block* block = blocks_.first;
  const Window window = front_of(*block);
  bytes_ -= window.size;
  set_count(count_ - 1);
  block->bytes -= window.size;
  if (++block->begin == block->end) drop(block);
  return window;
}

Window WindowChain::pop_back_of_block() {
  Block* block = blocks_.last;
  const Window window = back_of(*block);
  bytes_ -= window.size;
  set_count(count_ - 1);
  block->bytes -= window.size;
  if (--block->end == block->begin) drop(block);
  return window;
}

void WindowChain::copy_blocks(const WindowChain& other) {
  for (const Block* from = other.blocks_.first; from; from = from->next) {
    Block* block = new_block(from->begin);
    block->bytes = from->bytes;
    block->end = from->end;
    std::memcpy(static_cast<void*>(block->windows + block->begin), from->windows + from->begin,
                (from->end - from->begin) * sizeof(Window));
    if (from == other.blocks_.first) {
      blocks_ = {block, block};
    } else {
      link_back(block);
    }
  }
  bytes_ = other.bytes_;
  head_ = 0;
  set_count(other.count_);
  spilled_ = 1;
}

void WindowChain::drop_blocks() {
  for (Block* block = blocks_.first; block;) chunk_unref(std::exchange(block, block->next)->chunk);
  reset();
}

void WindowChain::splice_back(WindowChain& other) {
  if (count_ == 0) return take(other);
  SLUICE_CHECK(count() <= Window::kMaxBytes - other.count());
  const uint32_t used = spilled_ ? blocks_.last->end : count();
  if (!other.spilled_ && !spilled_ && used + other.count() <= kInline) {
    for (uint32_t i = 0; i < other.count(); ++i) inline_[slot(count() + i)] = other.inline_at(i);
  } else if (!other.spilled_) {
    Block& block = block_with_room(other.count());
    for (uint32_t i = 0; i < other.count(); ++i) block.windows[block.end++] = other.inline_at(i);
    block.bytes += other.bytes_;
  } else if (other.blocks_.first == other.blocks_.last && used + other.count() <= kBlockWindows) {
    // Merge into one block instead of keeping two half-empty ones.
    const Block& from = *other.blocks_.first;
    Block& block = block_with_room(other.count());
    std::memcpy(static_cast<void*>(block.windows + block.end), from.windows + from.begin,
                other.count() * sizeof(Window));
    block.end += other.count();
    block.bytes += from.bytes;
    chunk_unref(from.chunk);
  } else if (!spilled_) {
    for (uint32_t i = count(); i > 0; --i) other.push_front(inline_at(i - 1));
    reset();
    return take(other);
  } else {
    blocks_.last->next = other.blocks_.first;
    other.blocks_.first->previous = blocks_.last;
    blocks_.last = other.blocks_.last;
  }
  bytes_ += other.bytes_;
  set_count(count() + other.count());
  other.reset();
}

void WindowChain::take_whole_front(WindowChain& other, uint64_t bytes) {
  if (other.spilled_) {
    // The block that the cut goes through, and the totals before it.
    Block* cut = other.blocks_.first;
    uint64_t bytes_before = 0;
    uint32_t windows_before = 0;
    if (bytes <= other.bytes_ / 2) {
      while (bytes_before + cut->bytes <= bytes) {
        bytes_before += cut->bytes;
        windows_before += cut->end - cut->begin;
        cut = cut->next;
      }
    } else {
      cut = other.blocks_.last;
      bytes_before = other.bytes_ - cut->bytes;
      windows_before = other.count_ - (cut->end - cut->begin);
      while (bytes_before > bytes) {
        cut = cut->previous;
        bytes_before -= cut->bytes;
        windows_before -= cut->end - cut->begin;
      }
    }
    if (cut != other.blocks_.first) {
      blocks_ = {other.blocks_.first, cut->previous};
      cut->previous->next = nullptr;
      cut->previous = nullptr;
      other.blocks_.first = cut;
      spilled_ = 1;
      bytes_ = bytes_before;
      set_count(windows_before);
      other.bytes_ -= bytes_before;
      other.set_count(other.count_ - windows_before);
    }
  }
  while (bytes_ + other.front().size <= bytes) push_back(other.pop_front());
}

size_t WindowChain::block_bytes() const {
  size_t bytes = 0;
  if (!spilled_) return bytes;
  for (const Block* block = blocks_.first; block; block = block->next) bytes += chunk_capacity(*block->chunk);
  return bytes;
}

}  // namespace sluice::inline v0_1
