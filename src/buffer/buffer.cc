#include "sluice/buffer.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "sluice/copied.h"
#include "sluice/internal/check.h"
#include "sluice/internal/chunk_counter.h"

namespace sluice::inline v0_1 {

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

// Minimum size of the chunk that follows the last one. After a small chunk it doubles, so that many small pieces get
// few chunks and few pieces get a small chunk. Large chunks did not come from small pieces, so no spare room follows
// them.
size_t Buffer::next_chunk_bytes() const {
  const size_t last = empty() ? 0 : chunk_capacity(*windows_.back().chunk);
  return last < kPackChunkBytes ? 2 * last : 0;
}

// Appends `bytes` in fresh chunks of at least `least` bytes. The first chunk keeps `headroom` bytes free.
bool Buffer::fill_fresh(ChunkPool& pool, size_t headroom, std::span<const std::byte> bytes, size_t least) {
  while (!bytes.empty()) {
    const size_t piece = std::min(bytes.size(), kMaxChunkBytes - headroom);
    Chunk* chunk = pool.get(std::max(piece + headroom, least));
    if (!chunk) return false;
    // Put the tier's excess bytes where more data may follow: at the end, or at the front if headroom is requested.
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
  size_t chunk_bytes = bytes.size();
  if (!empty()) {
    const size_t room = tailroom();
    if (room >= bytes.size()) {
      const Window& last = windows_.back();
      counted_copy(last.data() + last.size, bytes.data(), bytes.size());
      windows_.move_back(static_cast<int64_t>(bytes.size()));
      return true;
    }
    if (room > 0) return append_copy_to_several(pool, bytes);
    chunk_bytes = std::max(chunk_bytes, next_chunk_bytes());
  }
  if (bytes.size() > kMaxChunkBytes) return append_copy_to_several(pool, bytes);
  Chunk* chunk = pool.get(chunk_bytes);
  if (!chunk) return false;
  counted_copy(chunk->data, bytes.data(), bytes.size());
  windows_.push_back({chunk, 0, static_cast<uint32_t>(bytes.size()), true});
  return true;
}

void Buffer::append_copy_beyond_budget(ChunkPool& pool, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const size_t piece = std::min(bytes.size(), kMaxChunkBytes);
    Lease lease(ChunkRef::take(pool.get_metadata(piece)), 0, piece);
    counted_copy(lease.data(), bytes.data(), piece);
    append(std::move(lease));
    bytes = bytes.subspan(piece);
  }
}

bool Buffer::append_copy_to_several(ChunkPool& pool, std::span<const std::byte> bytes) {
  const size_t into_tail = std::min(tailroom(), bytes.size());
  Buffer fresh;
  if (!fresh.fill_fresh(pool, 0, bytes.subspan(into_tail), next_chunk_bytes())) return false;
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
  pack(pool, {view.chunk_.release(), view.offset_, std::exchange(view.size_, 0), false});
}

void Buffer::append_packed(ChunkPool& pool, Buffer&& other) {
  SLUICE_CHECK(this != &other);
  while (!other.empty()) pack(pool, other.windows_.pop_front());
}

// Takes over the window's reference.
void Buffer::pack(ChunkPool& pool, Window window) {
  const size_t bytes = window.size;
  if (bytes > kPackBytes || bytes == 0) return append_window(window);
  if (!empty() && windows_.back().continued_by(window)) return append_window(window);
  if (tailroom() < bytes) {
    // Double each time, even after large chunks: a packed piece is usually followed by more small pieces.
    const size_t last = empty() ? 0 : chunk_capacity(*windows_.back().chunk);
    Lease fresh = Lease::allocate(pool, std::max(bytes, std::min(2 * last, kPackChunkBytes)));
    if (!fresh) return append_window(window);
    fresh.grow_back(bytes);
    counted_copy(fresh.data(), window.data(), bytes);
    append(std::move(fresh));
  } else {
    const Window& last = windows_.back();
    counted_copy(last.data() + last.size, window.data(), bytes);
    windows_.move_back(static_cast<int64_t>(bytes));
  }
  chunk_unref(window.chunk);
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
    last.exclusive = 1;  // No one else refers to the chunk. The mark lets a later append() merge the windows.
    chunk_ref(last.chunk);
    return Lease::of_range(last.chunk, last.offset + last.size, room);
  }
  Lease lease = Lease::allocate(pool, min_bytes);
  if (lease) lease.grow_back(lease.tailroom());
  return lease;
}

// ---- Taking away ----

Buffer Buffer::split_front(size_t count) {
  SLUICE_CHECK(count <= size());
  return cut_front(count, true);
}

std::optional<Buffer> Buffer::split_until(std::string_view delimiter, size_t from) {
  SLUICE_CHECK(!delimiter.empty());
  const size_t before = find(delimiter, from);
  if (before == npos) return std::nullopt;
  Buffer front = split_front(before);
  trim_front(delimiter.size());
  return front;
}

// Removes the first `count` bytes. With `keep_writable`, both sides of a cut window stay as writable as the window is
// now; otherwise only a lease stays writable.
Buffer Buffer::cut_front(size_t count, bool keep_writable) {
  Buffer front;
  if (count == size()) {
    front.windows_.take(windows_);
    return front;
  }
  front.windows_.take_whole_front(windows_, count);
  if (const size_t cut = count - front.size(); cut > 0) {
    Window& first = windows_.first();
    if (keep_writable && chunk_writable(first.chunk)) first.exclusive = 1;
    chunk_ref(first.chunk);
    front.append_window({first.chunk, first.offset, static_cast<uint32_t>(cut), static_cast<bool>(first.exclusive)});
    windows_.move_front(-static_cast<int64_t>(cut));
  }
  return front;
}

// Works block by block: window by window took three times as long. A release function may access this buffer, which is
// empty by then.
void Buffer::drop_blocks() {
  WindowChain dropped(std::move(windows_));
  for (const Window& window : dropped) chunk_unref(window.chunk);
  dropped.drop_blocks();
}

// ---- Sharing ----

void Buffer::clone_blocks(Buffer& copy) {
  for (Window& window : windows_) share(window);
  copy.windows_.copy_blocks(windows_);
}

Buffer Buffer::clone(size_t offset, size_t count) {
  SLUICE_CHECK(offset <= size() && count <= size() - offset);
  Buffer copy;
  apply_windows(offset, count, [&](Window& window, size_t at, size_t bytes) {
    share(window);
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
    counted_copy_few(scratch.data() + copied, window.data() + offset, piece);
    copied += piece;
    if (copied == count) break;
    offset = 0;
  }
  return scratch.first(count);
}

namespace {

// Whether the bytes from offset `within` of window `at` on begin with `text`.
bool matches(Buffer::Windows::Iterator at, Buffer::Windows::Iterator end, size_t within, std::string_view text) {
  for (; at != end && !text.empty(); ++at, within = 0) {
    const size_t piece = std::min((*at).size() - within, text.size());
    if (std::memcmp((*at).data() + within, text.data(), piece) != 0) return false;
    text.remove_prefix(piece);
  }
  return text.empty();
}

// Sums the 16-bit words of `bytes` in native byte order; an odd byte at the end is padded with zero. The byte order
// matters only for the swap at the end (RFC 1071 section 2).
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
  size_t before = 0;  // Total size of the previous windows.
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
  bool odd = false;  // Whether an odd number of bytes precedes the piece.
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

// Decide once which windows are writable, and mark them: another thread may drop its reference at any moment, and a
// second check could give a different result.
bool Buffer::make_writable(ChunkPool& pool, size_t offset, size_t count) {
  SLUICE_CHECK(offset <= size() && count <= size() - offset);
  bool shared = false;
  apply_windows(offset, count, [&](Window& window, size_t, size_t) {
    if (window.writable()) window.exclusive = 1;
    shared = shared || !window.exclusive;
  });
  if (!shared) return true;
  Buffer own;  // Copies of the shared bytes.
  bool refused = false;
  apply_windows(offset, count, [&](const Window& window, size_t at, size_t piece) {
    if (window.exclusive) return;
    refused = refused || !own.fill_fresh(pool, 0, {window.data() + at, piece});
  });
  if (refused) return false;

  Buffer front = cut_front(offset, false);
  Buffer part = cut_front(count, false);
  while (!part.empty()) {
    if (part.windows_.front().exclusive) {
      front.append_window(part.windows_.pop_front());
    } else {
      front.append(own.split_front(part.windows_.front().size));
      part.drop_front_window();
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
  SLUICE_CHECK(offset <= size() && count <= size() - offset && count > 0 && count <= Window::kMaxBytes);
  std::span<const std::byte> result;
  apply_windows(offset, count, [&](const Window& window, size_t at, size_t piece) {
    if (piece == count) result = {window.data() + at, count};
  });
  if (!result.empty()) return result;

  Lease lease(ChunkRef::take(count <= kMaxChunkBytes ? pool.get(count) : try_heap_chunk(count)), 0, 0);
  if (!lease) return {};
  lease.grow_back(count);
  copy_out(offset, lease.bytes());
  result = lease.bytes();
  Buffer front = split_front(offset);
  trim_front(count);
  prepend(std::move(lease));
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

// ---- Memory cost ----

Buffer::Pinned Buffer::pinned() const {
  ChunkCounter chunks;
  for (const Window& window : windows_) chunks.add(window);
  return pinned_by(chunks, windows_.block_bytes());
}

Buffer::Pinned Buffer::pinned_by(const ChunkCounter& chunks, size_t block_bytes) {
  Pinned pinned{block_bytes, block_bytes};
  chunks.for_each([&](const ChunkCounter::Entry& entry) {
    const uint64_t capacity = chunk_capacity(*entry.chunk);
    // Other threads may be dropping references, and one holder's windows may overlap.
    const uint64_t holders = std::max(entry.chunk->refs.load(std::memory_order_relaxed), entry.windows);
    const uint64_t share = capacity * entry.windows / holders;
    const uint64_t reached = std::min(entry.bytes, capacity);
    pinned.bytes += std::max(reached, share);
    pinned.wasted += share > reached ? share - reached : 0;
  });
  return pinned;
}

namespace {

// Whether the chunks of `windows`, each counted once, hold at least `bytes`. Counts full chunks rather than shares: the
// other holders of a chunk may be gone long before this buffer, which would then pin the whole chunk.
bool holds(const WindowChain& windows, size_t bytes) {
  size_t held = windows.block_bytes();
  ChunkCounter chunks;
  for (const Window& window : windows) {
    if (held >= bytes) break;
    if (chunks.add(window).windows == 1) held += chunk_capacity(*window.chunk);
  }
  return held >= bytes;
}

}  // namespace

bool Buffer::compact(ChunkPool& pool) {
  if (empty() || size() > kMaxChunkBytes) return false;
  if (!holds(windows_, 2 * tier_bytes(tier_for(size())))) return false;
  std::optional<Buffer> settled = deep_clone(pool);
  if (!settled) return false;
  *this = *std::move(settled);
  return true;
}

}  // namespace sluice::inline v0_1
