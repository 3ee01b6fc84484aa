#include "buffer/buffer.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "buffer/copied.h"
#include "pool/check.h"

namespace sluice {

Buffer::Buffer(Buffer&& other) noexcept { take_from(other); }

Buffer& Buffer::operator=(Buffer&& other) noexcept {
  if (this != &other) {
    clear();
    take_from(other);
  }
  return *this;
}

// Precondition: this holds nothing.
void Buffer::take_from(Buffer& other) {
  if (other.spilled_) {
    ring_ = other.ring_;
  } else {
    std::memcpy(static_cast<void*>(inline_), other.inline_, sizeof(inline_));
  }
  size_ = other.size_;
  head_ = other.head_;
  count_ = other.count_;
  spilled_ = other.spilled_;
  other.size_ = 0;
  other.head_ = other.count_ = other.spilled_ = 0;
}

std::span<const std::byte> Buffer::window(size_t index) const {
  SLUICE_CHECK(index < count_);
  const Window& w = at(index);
  return {w.data(), w.size};
}

std::span<std::byte> Buffer::writable_window(size_t index) {
  SLUICE_CHECK(index < count_);
  const Window& w = at(index);
  // A view whose chunk nobody else refers to any more is as good as a lease.
  if (!w.exclusive && !chunk_unique(w.chunk)) return {};
  return {w.data(), w.size};
}

void Buffer::reserve_windows(uint32_t count) {
  if (count <= capacity()) return;
  const uint32_t wanted = std::bit_ceil(std::max(count, 8u));
  ChunkPool* pool = ChunkPool::current();
  const size_t bytes = wanted * sizeof(Window);
  Chunk* chunk = pool ? pool->get_metadata(bytes) : heap_chunk(bytes);
  Window* windows = reinterpret_cast<Window*>(chunk->data);
  for (uint32_t i = 0; i < count_; ++i) windows[i] = at(i);
  if (spilled_) chunk_unref(ring_.chunk);
  ring_ = {chunk, wanted - 1};
  head_ = 0;
  spilled_ = 1;
}

void Buffer::append_window(Window window) {
  if (window.size == 0) {
    if (window.chunk) chunk_unref(window.chunk);
    return;
  }
  size_ += window.size;
  if (count_ > 0) {
    Window& last = at(count_ - 1);
    if (last.continued_by(window)) {
      last.size = (last.size + window.size) & 0x7fffffffu;
      chunk_unref(window.chunk);
      return;
    }
  }
  reserve_windows(count_ + 1);
  at(count_) = window;
  count_ = (count_ + 1) & 0x7fffffffu;
}

void Buffer::prepend_window(Window window) {
  if (window.size == 0) {
    if (window.chunk) chunk_unref(window.chunk);
    return;
  }
  size_ += window.size;
  if (count_ > 0) {
    Window& first = at(0);
    if (window.continued_by(first)) {
      first.offset = window.offset;
      first.size = (first.size + window.size) & 0x7fffffffu;
      chunk_unref(window.chunk);
      return;
    }
  }
  reserve_windows(count_ + 1);
  if (spilled_) {
    head_ = (head_ - 1) & ring_.mask;
  } else {
    head_ = head_ == 0 ? kInline - 1 : head_ - 1;
  }
  count_ = (count_ + 1) & 0x7fffffffu;
  at(0) = window;
}

void Buffer::append(Buffer&& other) {
  if (this == &other || other.count_ == 0) return;
  if (count_ == 0) {
    *this = std::move(other);
    return;
  }
  reserve_windows(count_ + other.count_);
  for (uint32_t i = 0; i < other.count_; ++i) append_window(other.at(i));
  other.count_ = 0;
  other.became_empty();
}

bool Buffer::append_copy(ChunkPool& pool, std::span<const std::byte> bytes) {
  Window* last = count_ > 0 ? &at(count_ - 1) : nullptr;
  size_t room = 0;
  if (last && chunk_unique(last->chunk)) room = chunk_capacity(*last->chunk) - last->offset - last->size;
  const size_t into_tail = std::min(room, bytes.size());

  Buffer fresh;
  for (size_t done = into_tail; done < bytes.size();) {
    const size_t piece = std::min(bytes.size() - done, kMaxChunkBytes);
    Lease lease = Lease::allocate(pool, piece);
    if (!lease) return false;
    lease.grow_back(piece);
    counted_copy(lease.data(), bytes.data() + done, piece);
    fresh.append(std::move(lease));
    done += piece;
  }
  if (into_tail > 0) {
    counted_copy(last->data() + last->size, bytes.data(), into_tail);
    last->size = (last->size + static_cast<uint32_t>(into_tail)) & 0x7fffffffu;
    size_ += into_tail;
  }
  append(std::move(fresh));
  return true;
}

void Buffer::pop_front_window() {
  chunk_unref(at(0).chunk);
  forget_front_window();
  if (count_ == 0) became_empty();
}

// Its reference is somebody else's now.
void Buffer::forget_front_window() {
  size_ -= at(0).size;
  if (spilled_) {
    head_ = (head_ + 1) & ring_.mask;
  } else {
    head_ = head_ + 1 == kInline ? 0 : head_ + 1;
  }
  count_ = (count_ - 1) & 0x7fffffffu;
}

void Buffer::pop_back_window() {
  Window& last = at(count_ - 1);
  size_ -= last.size;
  chunk_unref(last.chunk);
  count_ = (count_ - 1) & 0x7fffffffu;
  if (count_ == 0) became_empty();
}

// A buffer without windows holds no ring either: nothing is pinned by what waits.
void Buffer::became_empty() {
  if (spilled_) chunk_unref(ring_.chunk);
  size_ = 0;
  head_ = 0;
  spilled_ = 0;
}

void Buffer::trim_front(size_t count) {
  SLUICE_CHECK(count <= size_);
  while (count > 0) {
    Window& first = at(0);
    if (count < first.size) {
      first.offset += static_cast<uint32_t>(count);
      first.size = (first.size - static_cast<uint32_t>(count)) & 0x7fffffffu;
      size_ -= count;
      return;
    }
    count -= first.size;
    pop_front_window();
  }
}

void Buffer::truncate(size_t count) {
  SLUICE_CHECK(count <= size_);
  while (size_ > count) {
    Window& last = at(count_ - 1);
    const uint64_t excess = size_ - count;
    if (excess < last.size) {
      last.size = (last.size - static_cast<uint32_t>(excess)) & 0x7fffffffu;
      size_ = count;
      return;
    }
    pop_back_window();
  }
}

Buffer Buffer::split_front(size_t count) {
  SLUICE_CHECK(count <= size_);
  Buffer front;
  if (count == size_) {
    front.take_from(*this);
    return front;
  }
  while (front.size_ < count) {
    Window& first = at(0);
    const size_t wanted = count - front.size_;
    if (first.size <= wanted) {
      front.append_window(first);
      forget_front_window();
      continue;
    }
    if (chunk_unique(first.chunk)) first.exclusive = 1;  // So that a cut leaves both sides as writable as it was.
    chunk_ref(first.chunk);
    front.append_window({first.chunk, first.offset, static_cast<uint32_t>(wanted), static_cast<bool>(first.exclusive)});
    trim_front(wanted);
  }
  return front;
}

void Buffer::clear() {
  while (count_ > 0) pop_front_window();
}

Buffer Buffer::clone() {
  Buffer copy;
  copy.reserve_windows(count_);
  for (uint32_t i = 0; i < count_; ++i) {
    Window& w = at(i);
    w.exclusive = 0;
    chunk_ref(w.chunk);
    copy.append_window(w);
  }
  return copy;
}

size_t Buffer::copy_out(size_t offset, std::span<std::byte> to) const {
  size_t done = 0;
  for (uint32_t i = 0; i < count_ && done < to.size(); ++i) {
    const Window& w = at(i);
    if (offset >= w.size) {
      offset -= w.size;
      continue;
    }
    const size_t piece = std::min<size_t>(w.size - offset, to.size() - done);
    counted_copy(to.data() + done, w.data() + offset, piece);
    done += piece;
    offset = 0;
  }
  return done;
}

std::span<const std::byte> Buffer::fetch(size_t count, std::span<std::byte> scratch) const {
  SLUICE_CHECK(count <= size_ && count <= scratch.size());
  if (count == 0) return {};
  if (at(0).size >= count) return {at(0).data(), count};
  copy_out(0, scratch.first(count));
  return scratch.first(count);
}

size_t Buffer::fill_iovecs(std::span<iovec> to) const {
  const size_t filled = std::min<size_t>(count_, to.size());
  for (size_t i = 0; i < filled; ++i) {
    const Window& w = at(i);
    to[i] = {w.data(), w.size};
  }
  return filled;
}

size_t Buffer::pinned_bytes() const {
  size_t pinned = spilled_ ? chunk_capacity(*ring_.chunk) : 0;
  for (uint32_t i = 0; i < count_; ++i) {
    const Window& w = at(i);
    const size_t holders = w.chunk->refs.load(std::memory_order_relaxed);
    pinned += std::max<size_t>(w.size, chunk_capacity(*w.chunk) / holders);
  }
  return pinned;
}

bool Buffer::settle(ChunkPool& pool) {
  if (size_ == 0 || size_ > kMaxChunkBytes) return false;
  if (2 * tier_bytes(tier_for(size_)) > pinned_bytes()) return false;
  Lease lease = Lease::allocate(pool, size_);
  if (!lease) return false;
  lease.grow_back(size_);
  copy_out(0, lease.bytes());
  clear();
  append(std::move(lease));
  return true;
}

}  // namespace sluice
