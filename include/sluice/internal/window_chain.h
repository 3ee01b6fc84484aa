#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <iterator>

#include "sluice/chunk.h"

namespace sluice::inline v0_1 {

/// A byte range of a chunk, as held in a `Buffer`'s chain. Plain data: its holder owns one reference to the chunk and
/// must drop it or pass it on.
struct Window {
  static constexpr size_t kMaxBytes = 0x7fffffff;

  Chunk* chunk;
  uint32_t offset;
  uint32_t size : 31;
  uint32_t exclusive : 1;  ///< The range is a lease: nobody else reads or writes it.

  Window() = default;
  Window(Chunk* c, uint32_t o, uint32_t s, bool e) : chunk(c), offset(o), size(s & 0x7fffffffu), exclusive(e) {}

  std::byte* data() const { return chunk->data + offset; }
  /// A view that holds the only reference to its chunk is as good as a lease.
  bool writable() const { return exclusive || chunk_writable(chunk); }
  bool continued_by(const Window& next) const {
    return chunk == next.chunk && offset + size == next.offset && exclusive == next.exclusive &&
           next.size <= kMaxBytes - size;
  }
  void resize(size_t bytes) { size = static_cast<uint32_t>(bytes) & 0x7fffffffu; }
};
static_assert(sizeof(Window) == 16);

/// The windows of a `Buffer`, in order: up to three in the object, or more in a doubly linked list of blocks, each a
/// metadata chunk of the current pool. Pushing and popping at both ends and splicing take constant time. Cutting walks
/// from the nearer end. An empty chain holds no chunks.
///
/// The chain moves windows and counts their bytes. It takes over and hands out chunk references but drops none.
class WindowChain {
  struct Block;

 public:
  static constexpr uint32_t kInline = 3;

  WindowChain() = default;
  WindowChain(WindowChain&& other) noexcept { take(other); }
  WindowChain& operator=(WindowChain&&) = delete;
  /// Precondition: empty.
  ~WindowChain() = default;

  uint64_t bytes() const { return bytes_; }
  uint32_t count() const { return count_; }
  bool empty() const { return count_ == 0; }
  /// Bytes of the blocks, which the chain pins.
  size_t block_bytes() const;

  const Window& front() const { return spilled_ ? front_of(*blocks_.first) : inline_[head_]; }
  /// Like front, but allows changes to all fields except the size.
  Window& first() { return const_cast<Window&>(front()); }
  const Window& back() const { return spilled_ ? back_of(*blocks_.last) : inline_at(count_ - 1); }
  Window& last() { return const_cast<Window&>(back()); }

  /// Takes over a window. Precondition: the window is not empty.
  void push_back(Window window) {
    if (spilled_ || count_ == kInline) [[unlikely]]
      return push_back_to_block(window);
    inline_[slot(count_)] = window;
    bytes_ += window.size;
    set_count(count_ + 1);
  }
  void push_front(Window window) {
    if (spilled_ || count_ == kInline) [[unlikely]]
      return push_front_to_block(window);
    head_ = head_ == 0 ? kInline - 1 : head_ - 1;
    inline_[head_] = window;
    bytes_ += window.size;
    set_count(count_ + 1);
  }
  /// Transfers the window to the caller. Precondition: not empty.
  Window pop_front() {
    if (spilled_) [[unlikely]]
      return pop_front_of_block();
    const Window window = inline_[head_];
    bytes_ -= window.size;
    set_count(count_ - 1);
    head_ = count_ == 0 || head_ + 1 == kInline ? 0 : head_ + 1;
    return window;
  }
  Window pop_back() {
    if (spilled_) [[unlikely]]
      return pop_back_of_block();
    const Window window = inline_at(count_ - 1);
    bytes_ -= window.size;
    set_count(count_ - 1);
    if (count_ == 0) head_ = 0;
    return window;
  }

  /// Moves the front of the first window, or the back of the last one. A positive count grows the window.
  void move_front(int64_t count) {
    Window& window = first();
    window.offset = static_cast<uint32_t>(window.offset - count);
    window.resize(static_cast<size_t>(window.size + count));
    bytes_ += static_cast<uint64_t>(count);
    if (spilled_) blocks_.first->bytes += static_cast<uint64_t>(count);
  }
  void move_back(int64_t count) {
    Window& window = last();
    window.resize(static_cast<size_t>(window.size + count));
    bytes_ += static_cast<uint64_t>(count);
    if (spilled_) blocks_.last->bytes += static_cast<uint64_t>(count);
  }

  /// Moves all of `other`'s windows to the end of this chain. O(1).
  void splice_back(WindowChain& other);
  /// Moves all of `other`'s windows to this chain. Precondition: this is empty.
  void take(WindowChain& other) {
    if (other.spilled_) {
      blocks_ = other.blocks_;
    } else {
      std::memcpy(static_cast<void*>(inline_), other.inline_, sizeof(inline_));
    }
    bytes_ = other.bytes_;
    head_ = other.head_;
    count_ = other.count_;
    spilled_ = other.spilled_;
    other.reset();
  }
  /// Whether the windows lie in blocks rather than in the object.
  bool in_blocks() const { return spilled_; }
  /// Window `index`; all fields except the size may change. Precondition: !in_blocks(), and index < count().
  Window& within(uint32_t index) { return inline_[slot(index)]; }
  /// Copies `other`'s windows. The caller has added the references. Precondition: this is empty, and
  /// !other.in_blocks().
  void copy_within(const WindowChain& other) { std::memcpy(static_cast<void*>(this), &other, sizeof *this); }
  /// Copies `other`'s windows into new blocks. Precondition: this is empty, and other.in_blocks().
  void copy_blocks(const WindowChain& other);
  /// Drops all windows. The caller has dropped the references. Precondition: in_blocks().
  void drop_blocks();
  /// Moves to this chain the windows that lie completely within the first `bytes` of `other`. Precondition: this is
  /// empty, and bytes < other.bytes(). O(blocks between the cut and the nearer end).
  void take_whole_front(WindowChain& other, uint64_t bytes);

  /// Iterates over the windows in order. Any change to the chain invalidates its iterators.
  class Iterator {
   public:
    using iterator_category = std::forward_iterator_tag;
    using value_type = Window;
    using difference_type = ptrdiff_t;
    using pointer = Window*;
    using reference = Window&;

    Iterator() = default;
    /// Points at the first window. Construct the iterator in place: a copy would write the fields in different pieces
    /// than they are read in.
    explicit Iterator(const WindowChain& chain);
    Window& operator*() const { return *at_; }
    Window* operator->() const { return at_; }
    Iterator& operator++();
    Iterator operator++(int) {
      const Iterator old = *this;
      ++*this;
      return old;
    }
    bool operator==(const Iterator& other) const { return left_ == other.left_; }

   private:
    Window* at_ = nullptr;
    Window* stop_ = nullptr;  // End of this block's windows, or of the inline array.
    Window* wrap_ = nullptr;  // Start of the inline array.
    Block* block_ = nullptr;  // Null when inline.
    uint32_t left_ = 0;       // Remaining windows, this one included.
  };
  /// Windows are mutable, but the caller must not change their sizes.
  Iterator begin() const { return Iterator(*this); }
  Iterator end() const { return Iterator(); }

 private:
  static constexpr uint32_t kBlockWindows = 13;
  struct Block {
    Chunk* chunk;  // The chunk that holds this block.
    Block* previous;
    Block* next;
    uint64_t bytes;       // Total size of its windows.
    uint32_t begin, end;  // windows[begin, end) are in use.
    Window windows[kBlockWindows];
  };
  static_assert(sizeof(Block) <= 256);
  struct Blocks {
    Block* first;
    Block* last;
  };

  static Window& front_of(Block& block) { return block.windows[block.begin]; }
  static Window& back_of(Block& block) { return block.windows[block.end - 1]; }
  const Window& inline_at(uint32_t index) const { return inline_[slot(index)]; }
  uint32_t slot(uint32_t index) const { return head_ + index < kInline ? head_ + index : head_ + index - kInline; }

  static Block* new_block(uint32_t at);
  void spill(uint32_t at);
  Block& block_with_room(uint32_t windows);
  void link_back(Block* block);
  void link_front(Block* block);
  void drop(Block* block);
  void reset() {
    bytes_ = 0;
    head_ = 0;
    count_ = 0;
    spilled_ = 0;
  }
  void push_back_to_block(Window window);
  void push_front_to_block(Window window);
  Window pop_front_of_block();
  Window pop_back_of_block();
  void set_count(uint32_t count) { count_ = count & 0x7fffffffu; }

  union {
    Window inline_[kInline];
    Blocks blocks_;
  };
  uint64_t bytes_ = 0;
  uint32_t head_ = 0;  // Start of the inline windows, which form a ring.
  uint32_t count_ : 31 = 0;
  uint32_t spilled_ : 1 = 0;
};

[[gnu::always_inline]] inline WindowChain::Iterator::Iterator(const WindowChain& chain) : left_(chain.count_) {
  if (chain.count_ == 0) return;
  if (chain.spilled_) {
    block_ = chain.blocks_.first;
    at_ = &front_of(*block_);
    stop_ = block_->windows + block_->end;
  } else {
    wrap_ = const_cast<Window*>(chain.inline_);
    at_ = wrap_ + chain.head_;
    stop_ = wrap_ + kInline;
  }
}

inline WindowChain::Iterator& WindowChain::Iterator::operator++() {
  --left_;
  if (++at_ != stop_) return *this;
  if (!block_) {
    at_ = wrap_;
  } else if (block_->next) {
    block_ = block_->next;
    at_ = &front_of(*block_);
    stop_ = block_->windows + block_->end;
  }
  return *this;
}

}  // namespace sluice::inline v0_1
