#include "buffer/buffer.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "buffer/copied.h"
#include "pool/check.h"

namespace sluice {

std::span<const std::byte> Buffer::window(size_t index) const {
  SLUICE_CHECK(index < window_count());
  return *std::next(windows().begin(), static_cast<ptrdiff_t>(index));
}

std::span<std::byte> Buffer::writable_window(size_t index) {
  SLUICE_CHECK(index < window_count());
  const Window& w = *std::next(windows_.begin(), static_cast<ptrdiff_t>(index));
  if (!w.writable()) return {};
  return {w.data(), w.size};
}

// ---- Adding ----

void Buffer::append(Buffer&& other) {
  if (this == &other || other.empty()) return;
  if (!empty() && windows_.back().continued_by(other.windows_.front())) append_window(other.windows_.pop_front());
  if (!other.empty()) windows_.splice_back(other.windows_);
}

void Buffer::prepend(Buffer&& other) {
  if (this == &other || other.empty()) return;
  other.append(std::move(*this));
  windows_.take(other.windows_);
}

size_t Buffer::headroom() const {
  return !empty() && chunk_writable(windows_.front().chunk) ? windows_.front().offset : 0;
}

size_t Buffer::tailroom() const {
  if (empty() || !chunk_writable(windows_.back().chunk)) return 0;
  const Window& last = windows_.back();
  return chunk_capacity(*last.chunk) - last.offset - last.size;
}

// Appends `bytes` in fresh chunks, the first with room before it.
bool Buffer::fill_fresh(ChunkPool& pool, size_t headroom, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const size_t piece = std::min(bytes.size(), kMaxChunkBytes - headroom);
    Chunk* chunk = pool.get(piece + headroom);
    if (!chunk) return false;
    // What the tier has too much goes where more may be added: behind, or before when headroom is wanted.
    Lease lease(ChunkRef::take(chunk), headroom > 0 ? chunk_capacity(*chunk) - piece : 0, piece);
    counted_copy(lease.data(), bytes.data(), piece);
    append(std::move(lease));
    bytes = bytes.subspan(piece);
    headroom = 0;
  }
  return true;
}

bool Buffer::append_copy(ChunkPool& pool, std::span<const std::byte> bytes) {
  if (bytes.empty()) return true;
  const size_t room = tailroom();
  if (bytes.size() > room && (room > 0 || bytes.size() > kMaxChunkBytes)) return append_copy_to_several(pool, bytes);
  if (room > 0) {
    const Window& last = windows_.back();
    counted_copy(last.data() + last.size, bytes.data(), bytes.size());
    windows_.move_back(static_cast<int64_t>(bytes.size()));
    return true;
  }
  Chunk* chunk = pool.get(bytes.size());
  if (!chunk) return false;
  counted_copy(chunk->data, bytes.data(), bytes.size());
  windows_.push_back({chunk, 0, static_cast<uint32_t>(bytes.size()), true});
  return true;
}

bool Buffer::append_copy_to_several(ChunkPool& pool, std::span<const std::byte> bytes) {
  const size_t into_tail = std::min(tailroom(), bytes.size());
  Buffer fresh;
  if (!fresh.fill_fresh(pool, 0, bytes.subspan(into_tail))) return false;
  if (into_tail > 0) {
    const Window& last = windows_.back();
    counted_copy(last.data() + last.size, bytes.data(), into_tail);
    windows_.move_back(static_cast<int64_t>(into_tail));
  }
  append(std::move(fresh));
  return true;
}

bool Buffer::prepend_copy(ChunkPool& pool, std::span<const std::byte> bytes, size_t headroom) {
  SLUICE_CHECK(headroom < kMaxChunkBytes);
  const size_t into_head = std::min(this->headroom(), bytes.size());
  Buffer fresh;
  if (!fresh.fill_fresh(pool, headroom, bytes.first(bytes.size() - into_head))) return false;
  if (into_head > 0) {
    counted_copy(windows_.front().data() - into_head, bytes.data() + bytes.size() - into_head, into_head);
    windows_.move_front(static_cast<int64_t>(into_head));
  }
  prepend(std::move(fresh));
  return true;
}

void Buffer::append_packed(ChunkPool& pool, View&& view) {
  if (view.size() > kPackBytes) return append(std::move(view));
  if (tailroom() < view.size()) {
    // Twice as much each time, so that many pieces get few chunks, and few pieces a small one.
    const size_t last = empty() ? 0 : chunk_capacity(*windows_.back().chunk);
    Lease fresh = Lease::allocate(pool, std::max(view.size(), std::min(2 * last, kPackChunkBytes)));
    if (!fresh) return append(std::move(view));
    fresh.grow_back(view.size());
    counted_copy(fresh.data(), view.data(), view.size());
    append(std::move(fresh));
  } else if (!view.empty()) {
    const Window& last = windows_.back();
    counted_copy(last.data() + last.size, view.data(), view.size());
    windows_.move_back(static_cast<int64_t>(view.size()));
  }
  view = View();
}

void Buffer::append_packed(ChunkPool& pool, Buffer&& other) {
  SLUICE_CHECK(this != &other);
  while (!other.empty()) {
    const Window window = other.windows_.pop_front();
    if (window.size > kPackBytes) {
      append_window(window);
    } else {
      append_packed(pool, View(ChunkRef::take(window.chunk), window.offset, window.size));
    }
  }
}

bool Buffer::grow(ChunkPool& pool, size_t count, std::byte fill) {
  const size_t into_tail = std::min(tailroom(), count);
  Buffer fresh;
  for (size_t left = count - into_tail; left > 0;) {
    const size_t piece = std::min(left, kMaxChunkBytes);
    Lease lease = Lease::allocate(pool, piece);
    if (!lease) return false;
    lease.grow_back(piece);
    std::memset(lease.data(), static_cast<int>(fill), piece);
    fresh.append(std::move(lease));
    left -= piece;
  }
  if (into_tail > 0) {
    const Window& last = windows_.back();
    std::memset(last.data() + last.size, static_cast<int>(fill), into_tail);
    windows_.move_back(static_cast<int64_t>(into_tail));
  }
  append(std::move(fresh));
  return true;
}

Lease Buffer::reserve(ChunkPool& pool, size_t min_bytes) {
  SLUICE_CHECK(min_bytes > 0 && min_bytes <= kMaxChunkBytes);
  if (const size_t room = tailroom(); room >= min_bytes) {
    Window& last = windows_.last();
    last.exclusive = 1;  // As it is: nobody else refers to the chunk. What is appended then becomes one window with it.
    chunk_ref(last.chunk);
    return Lease(ChunkRef::take(last.chunk), last.offset + last.size, room);
  }
  Lease lease = Lease::allocate(pool, min_bytes);
  if (lease) lease.grow_back(lease.tailroom());
  return lease;
}

// ---- Taking away ----

Buffer Buffer::split_front(size_t count) {
  SLUICE_CHECK(count <= size());
  Buffer front;
  if (count == size()) {
    front.windows_.take(windows_);
    return front;
  }
  front.windows_.take_whole_front(windows_, count);
  if (const size_t cut = count - front.size(); cut > 0) {
    Window& first = windows_.first();
    if (chunk_writable(first.chunk)) first.exclusive = 1;  // So that both sides are as writable as it was.
    chunk_ref(first.chunk);
    front.append_window({first.chunk, first.offset, static_cast<uint32_t>(cut), static_cast<bool>(first.exclusive)});
    windows_.move_front(-static_cast<int64_t>(cut));
  }
  return front;
}

// ---- Sharing ----

Buffer Buffer::clone(size_t offset, size_t count) {
  SLUICE_CHECK(offset <= size() && count <= size() - offset);
  Buffer copy;
  apply_windows(offset, count, [&](Window& window, size_t at, size_t bytes) {
    window.exclusive = 0;
    chunk_ref(window.chunk);
    copy.append_window({window.chunk, window.offset + static_cast<uint32_t>(at), static_cast<uint32_t>(bytes), false});
  });
  return copy;
}

std::optional<Buffer> Buffer::deep_clone(ChunkPool& pool) const {
  Buffer copy;
  Lease lease;
  size_t left = size(), room = 0;
  for (std::span<const std::byte> window : windows()) {
    while (!window.empty()) {
      if (room == 0) {
        copy.append(std::move(lease));
        room = std::min(left, kMaxChunkBytes);
        lease = Lease::allocate(pool, room);
        if (!lease) return std::nullopt;
      }
      const size_t piece = std::min(window.size(), room);
      lease.grow_back(piece);
      counted_copy(lease.data() + lease.size() - piece, window.data(), piece);
      window = window.subspan(piece);
      room -= piece;
      left -= piece;
    }
  }
  copy.append(std::move(lease));
  return copy;
}

// ---- Reading ----

size_t Buffer::copy_out(size_t offset, std::span<std::byte> to) const {
  if (offset >= size()) return 0;
  const size_t count = std::min(size() - offset, to.size());
  apply(offset, count, [&](std::span<const std::byte> piece) {
    counted_copy(to.data(), piece.data(), piece.size());
    to = to.subspan(piece.size());
  });
  return count;
}

std::string Buffer::to_string() const {
  std::string text(size(), '\0');
  copy_out(0, std::as_writable_bytes(std::span(text)));
  return text;
}

std::span<const std::byte> Buffer::fetch_beyond_first(size_t offset, size_t count, std::span<std::byte> scratch) const {
  size_t copied = 0;
  for (const Window& window : windows_) {
    if (offset >= window.size) {
      offset -= window.size;
      continue;
    }
    const size_t piece = std::min(window.size - offset, count - copied);
    if (piece == count) return {window.data() + offset, count};
    counted_copy(scratch.data() + copied, window.data() + offset, piece);
    copied += piece;
    if (copied == count) break;
    offset = 0;
  }
  return scratch.first(count);
}

namespace {

// Whether the bytes from `within` of the window `at` on begin with `text`.
bool matches(Buffer::Windows::Iterator at, Buffer::Windows::Iterator end, size_t within, std::string_view text) {
  for (; at != end && !text.empty(); ++at, within = 0) {
    const size_t piece = std::min((*at).size() - within, text.size());
    if (std::memcmp((*at).data() + within, text.data(), piece) != 0) return false;
    text.remove_prefix(piece);
  }
  return text.empty();
}

// The sum of the 16-bit words of some bytes in the machine's order, an odd one at the end padded with zero. Which order
// does not matter but for the swap at the end (RFC 1071 section 2).
uint16_t native_sum(std::span<const std::byte> bytes) {
  uint64_t sum = 0;
  while (bytes.size() >= sizeof(uint32_t)) {
    uint32_t word = 0;
    std::memcpy(&word, bytes.data(), sizeof word);
    sum += word;
    bytes = bytes.subspan(sizeof word);
  }
  uint32_t rest = 0;
  std::memcpy(&rest, bytes.data(), bytes.size());
  sum += rest;
  while (sum >> 16) sum = (sum & 0xffff) + (sum >> 16);
  return static_cast<uint16_t>(sum);
}

uint16_t swapped(uint16_t word) { return static_cast<uint16_t>(word << 8 | word >> 8); }

}  // namespace

size_t Buffer::find(std::byte byte, size_t from) const {
  size_t before = 0;  // Bytes of the windows before.
  for (std::span<const std::byte> window : windows()) {
    const size_t skip = from > before ? std::min(from - before, window.size()) : 0;
    if (skip < window.size()) {
      const void* found = std::memchr(window.data() + skip, static_cast<int>(byte), window.size() - skip);
      if (found) return before + static_cast<size_t>(static_cast<const std::byte*>(found) - window.data());
    }
    before += window.size();
  }
  return npos;
}

size_t Buffer::find(std::string_view text, size_t from) const {
  if (text.empty()) return from <= size() ? from : npos;
  size_t before = 0;
  const auto end = windows().end();
  for (auto at = windows().begin(); at != end; ++at) {
    const std::span<const std::byte> window = *at;
    size_t within = from > before ? std::min(from - before, window.size()) : 0;
    while (within < window.size() && before + within + text.size() <= size()) {
      const void* found = std::memchr(window.data() + within, text[0], window.size() - within);
      if (!found) break;
      within = static_cast<size_t>(static_cast<const std::byte*>(found) - window.data());
      if (matches(at, end, within, text)) return before + within;
      ++within;
    }
    before += window.size();
  }
  return npos;
}

bool Buffer::starts_with(std::string_view text) const { return matches(windows().begin(), windows().end(), 0, text); }

std::strong_ordering Buffer::operator<=>(const Buffer& other) const {
  const Windows ours = windows(), theirs = other.windows();
  auto a = ours.begin(), b = theirs.begin();
  for (size_t in_a = 0, in_b = 0; a != ours.end() && b != theirs.end();) {
    const size_t piece = std::min((*a).size() - in_a, (*b).size() - in_b);
    const int order = std::memcmp((*a).data() + in_a, (*b).data() + in_b, piece);
    if (order != 0) return order <=> 0;
    in_a += piece;
    in_b += piece;
    if (in_a == (*a).size()) ++a, in_a = 0;
    if (in_b == (*b).size()) ++b, in_b = 0;
  }
  return size() <=> other.size();
}

uint16_t Buffer::checksum(size_t offset) const {
  SLUICE_CHECK(offset <= size());
  uint64_t sum = 0;
  bool odd = false;  // So many bytes came before.
  apply(offset, size() - offset, [&](std::span<const std::byte> piece) {
    const uint16_t words = native_sum(piece);
    sum += odd ? swapped(words) : words;
    odd ^= piece.size() & 1;
  });
  while (sum >> 16) sum = (sum & 0xffff) + (sum >> 16);
  const uint16_t folded = static_cast<uint16_t>(sum);
  return std::endian::native == std::endian::little ? swapped(folded) : folded;
}

// ---- Writing ----

bool Buffer::make_writable(ChunkPool& pool, size_t offset, size_t count) {
  SLUICE_CHECK(offset <= size() && count <= size() - offset);
  Buffer own;
  bool shared = false, refused = false;
  apply_windows(offset, count, [&](const Window& window, size_t at, size_t piece) {
    if (window.writable()) return;
    shared = true;
    refused = refused || !own.fill_fresh(pool, 0, {window.data() + at, piece});
  });
  if (!shared) return true;
  if (refused) return false;

  Buffer front = split_front(offset);
  Buffer part = split_front(count);
  Buffer theirs;  // Until the end: dropped earlier, a window could make another one of its chunk writable.
  while (!part.empty()) {
    if (part.windows_.front().writable()) {
      front.append_window(part.windows_.pop_front());
    } else {
      front.append(own.split_front(part.windows_.front().size));
      theirs.append_window(part.windows_.pop_front());
    }
  }
  prepend(std::move(front));
  return true;
}

bool Buffer::write_at(ChunkPool& pool, size_t offset, std::span<const std::byte> bytes) {
  if (!make_writable(pool, offset, bytes.size())) return false;
  apply_windows(offset, bytes.size(), [&](const Window& window, size_t at, size_t piece) {
    counted_copy(window.data() + at, bytes.data(), piece);
    bytes = bytes.subspan(piece);
  });
  return true;
}

std::span<const std::byte> Buffer::pull_up(ChunkPool& pool, size_t offset, size_t count) {
  SLUICE_CHECK(offset <= size() && count <= size() - offset && count > 0 && count <= kMaxChunkBytes);
  std::span<const std::byte> result;
  apply_windows(offset, count, [&](const Window& window, size_t at, size_t piece) {
    if (piece == count) result = {window.data() + at, count};
  });
  if (!result.empty()) return result;

  Lease lease = Lease::allocate(pool, count);
  if (!lease) return {};
  lease.grow_back(count);
  copy_out(offset, lease.bytes());
  result = lease.bytes();
  Buffer front = split_front(offset);
  trim_front(count);
  front.append(std::move(lease));
  prepend(std::move(front));
  return result;
}

// ---- For system calls and ciphers ----

size_t Buffer::fill_iovecs(std::span<iovec> to) const {
  size_t filled = 0;
  for (const Window& window : windows_) {
    if (filled == to.size()) break;
    to[filled++] = {window.data(), window.size};
  }
  return filled;
}

size_t Buffer::fill_in_place(size_t offset, size_t count, std::span<InOut> to) {
  SLUICE_CHECK(offset <= size() && count <= size() - offset);
  size_t filled = 0;
  bool possible = true;
  apply_windows(offset, count, [&](const Window& window, size_t at, size_t bytes) {
    possible = possible && filled < to.size() && window.writable();
    if (possible) to[filled++] = {window.data() + at, window.data() + at, bytes};
  });
  return possible ? filled : 0;
}

// ---- What it costs ----

Buffer::Pinned Buffer::pinned() const {
  const size_t blocks = windows_.block_bytes();
  Pinned pinned{blocks, blocks};
  for (const Window& window : windows_) {
    const size_t share = chunk_capacity(*window.chunk) / window.chunk->refs.load(std::memory_order_relaxed);
    pinned.bytes += std::max<size_t>(window.size, share);
    pinned.wasted += share > window.size ? share - window.size : 0;
  }
  return pinned;
}

bool Buffer::settle(ChunkPool& pool) {
  if (empty() || size() > kMaxChunkBytes) return false;
  // Not by its share: the other holders of a chunk may be gone long before this one, which would then pin all of it.
  size_t held = windows_.block_bytes();
  for (const Window& window : windows_) held += chunk_capacity(*window.chunk);
  if (2 * tier_bytes(tier_for(size())) > held) return false;
  std::optional<Buffer> settled = deep_clone(pool);
  if (!settled) return false;
  *this = *std::move(settled);
  return true;
}

}  // namespace sluice
