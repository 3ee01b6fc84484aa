#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <iterator>

#include "pool/chunk.h"

namespace sluice {

/// A range of bytes of a chunk, as the chain of a `Buffer` holds it. Plain data: who holds it owns one reference to the
/// chunk and must drop or pass it on.
struct Window {
  static constexpr size_t kMaxBytes = 0x7fffffff;

  Chunk* chunk;
  uint32_t offset;
  uint32_t size : 31;
  uint32_t exclusive : 1;  ///< The range is a lease: nobody else reads or writes it.

  Window() = default;
  Window(Chunk* c, uint32_t o, uint32_t s, bool e) : chunk(c), offset(o), size(s & 0x7fffffffu), exclusive(e) {}

  std::byte* data() const { return chunk->data + offset; }
  /// A view whose chunk nobody else refers to any more is as good as a lease.
  bool writable() const { return exclusive || chunk_writable(chunk); }
  bool continued_by(const Window& next) const {
    return chunk == next.chunk && offset + size == next.offset && exclusive == next.exclusive &&
           next.size <= kMaxBytes - size;
  }
  void resize(size_t bytes) { size = static_cast<uint32_t>(bytes) & 0x7fffffffu; }
};
static_assert(sizeof(Window) == 16);

/// The windows of a `Buffer`, in their order: three within the object; more in blocks that are linked both ways, each a
/// metadata chunk of the current pool. Pushing and popping at both ends, splicing, and cutting where the walk from the
/// nearer end has led cost the same however long the chain is. An empty chain holds nothing.
///
/// It moves windows and keeps count of their bytes; references to chunks it takes and gives, and drops none.
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
  /// Bytes of the blocks, which the chain keeps from other use.
  size_t block_bytes() const;

  const Window& front() const { return spilled_ ? front_of(*blocks_.first) : inline_[head_]; }
  /// The same for changing all but the size.
  Window& first() { return const_cast<Window&>(front()); }
  const Window& back() const { return spilled_ ? back_of(*blocks_.last) : inline_at(count_ - 1); }
  Window& last() { return const_cast<Window&>(back()); }

  /// Takes a window. Precondition: it is not empty.
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
  /// Gives the window to the caller. Precondition: not empty.
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

  /// Moves the near / far end of the first / last window: a positive count grows it.
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

  /// Takes all of `other`'s windows behind its own. O(1).
  void splice_back(WindowChain& other);
  /// Takes all of `other`'s windows. Precondition: this is empty.
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
  /// Whether there are blocks, or else all windows lie within the object.
  bool in_blocks() const { return spilled_; }
  /// Window `index` for changing all but the size. Precondition: !in_blocks(), and index < count().
  Window& within(uint32_t index) { return inline_[slot(index)]; }
  /// Takes a copy of each of `other`'s windows, whose references the caller has taken. Precondition: this is empty, and
  /// !other.in_blocks().
  void copy_within(const WindowChain& other) { std::memcpy(static_cast<void*>(this), &other, sizeof *this); }
  /// The same, with new blocks. Precondition: this is empty, and other.in_blocks().
  void copy_blocks(const WindowChain& other);
  /// Forgets all windows, whose references the caller has dropped. Precondition: in_blocks().
  void drop_blocks();
  /// Moves windows from the front of `other`, as many whole ones as lie in its first `bytes`, to this chain.
  /// Precondition: this is empty, and bytes < other.bytes(). O(blocks between the cut and the nearer end).
  void take_whole_front(WindowChain& other, uint64_t bytes);

  /// Windows in their order. Changing the chain ends the validity of its iterators.
  class Iterator {
   public:
    using iterator_category = std::forward_iterator_tag;
    using value_type = Window;
    using difference_type = ptrdiff_t;
    using pointer = Window*;
    using reference = Window&;

    Iterator() = default;
    /// At the first window. Made where it is to stay: it is read in other pieces than it would be copied in.
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
    Window* stop_ = nullptr;  // Behind the last window of this block, or of the inline array.
    Window* wrap_ = nullptr;  // The inline array's beginning.
    Block* block_ = nullptr;  // Null when inline.
    uint32_t left_ = 0;       // Windows from here to the end.
  };
  /// For writing: the caller must keep sizes as they are.
  Iterator begin() const { return Iterator(*this); }
  Iterator end() const { return Iterator(); }

 private:
  static constexpr uint32_t kBlockWindows = 13;
  struct Block {
    Chunk* chunk;  // That it lies in.
    Block* previous;
    Block* next;
    uint64_t bytes;       // Of its windows.
    uint32_t begin, end;  // windows[begin, end) are used.
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
  uint32_t head_ = 0;  // Of the inline windows, which are a ring.
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

}  // namespace sluice
