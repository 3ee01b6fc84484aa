#include "proxy/http/message/fields.h"

#include <cstdint>
#include <cstring>
#include <new>
#include <span>
#include <utility>

#include "proxy/common/short_text.h"
#include "sluice/internal/check.h"

namespace sluice {

// Entries end where a chunk ends, and its capacity is a multiple of their alignment.
static_assert(kMinChunkBytes % alignof(uint16_t) == 0);

namespace {

// Converts A to Z to lower case in eight characters at once.
constexpr uint64_t lowered(uint64_t word) {
  constexpr uint64_t kOnes = 0x0101010101010101, kHighs = 0x80 * kOnes;
  const uint64_t ascii = word & ~kHighs;
  const uint64_t from_a = ascii + (0x80 - 'A') * kOnes, behind_z = ascii + (0x80 - 'Z' - 1) * kOnes;
  return word | ((from_a & ~behind_z & ~word & kHighs) >> 2);
}
static_assert(lowered(0x415a405bc1616139) == 0x617a405bc1616139);

template <typename Word>
void lower_at(char* at) {
  Word word;
  std::memcpy(&word, at, sizeof word);
  word = static_cast<Word>(lowered(word));
  std::memcpy(at, &word, sizeof word);
}

// The last word overlaps the one before it: what is lowered twice stays the same.
void lower(std::span<char> text) {
  char* const end = text.data() + text.size();
  if (text.size() >= sizeof(uint64_t)) {
    for (char* at = text.data(); at + sizeof(uint64_t) < end; at += sizeof(uint64_t)) lower_at<uint64_t>(at);
    return lower_at<uint64_t>(end - sizeof(uint64_t));
  }
  if (text.size() >= sizeof(uint32_t)) {
    lower_at<uint32_t>(text.data());
    return lower_at<uint32_t>(end - sizeof(uint32_t));
  }
  for (char* at = text.data(); at < end; ++at) lower_at<uint8_t>(at);
}

}  // namespace

// Precondition: make_room() has succeeded for it.
inline Text Fields::write(std::string_view text) {
  const Text written{text_bytes_, static_cast<uint16_t>(text.size())};
  copy_short(chunk_.data() + text_bytes_, text.data(), text.size());
  text_bytes_ = static_cast<uint16_t>(text_bytes_ + text.size());
  return written;
}

inline bool Fields::append(ChunkPool& pool, std::string_view name, std::string_view value, Traits traits) {
  ChunkRef old;  // Keeps the old chunk alive, because the arguments may point into it.
  if (!has_room(name.size() + value.size(), 1) && !make_room(pool, name.size() + value.size(), 1, old)) return false;
  const Text name_text = write(name), value_text = write(value);
  new (entries_end() - 1 - count_) Entry{name_text, value_text, traits};
  ++count_;
  name_sizes_ |= size_bit(name);
  return true;
}

bool Fields::add(ChunkPool& pool, std::string_view name, std::string_view value, Traits traits) {
  return append(pool, name, value, traits);
}

bool Fields::add_lowered(ChunkPool& pool, std::string_view name, std::string_view value, Traits traits) {
  if (!append(pool, name, value, traits)) return false;
  const size_t at = text_bytes_ - value.size() - name.size();
  lower({reinterpret_cast<char*>(chunk_.data()) + at, name.size()});
  return true;
}

bool Fields::keep(ChunkPool& pool, std::string_view first, std::string_view second, Text& kept) {
  ChunkRef old;
  if (!make_room(pool, first.size() + second.size(), 0, old)) return false;
  kept = write(first);
  kept.size = static_cast<uint16_t>(kept.size + write(second).size);
  return true;
}

void Fields::reserve(ChunkPool& pool, size_t count, size_t text_bytes) {
  const size_t bytes = text_bytes + count * sizeof(Entry);
  if (!chunk_ && bytes <= kMaxBytes) take_chunk(pool, bytes);
}

// Messages have many fields, and few names are looked for: nearly all differ in size or in the first character.
size_t Fields::search(std::string_view name, size_t from) const {
  if (from >= count_ || name.empty()) return npos;
  const Entry* const first = entries_end();
  const Entry* const last = first - count_;
  const char* const texts = chars();
  for (const Entry* at = first - from; at != last;) {
    --at;
    const char* const text = texts + at->name.offset;
    if (at->name.size != name.size() || *text != name.front()) continue;
    if (std::memcmp(text, name.data(), name.size()) == 0) return static_cast<size_t>(first - at) - 1;
  }
  return npos;
}

std::string_view Fields::value(std::string_view name) const {
  const size_t index = find(name);
  return index == npos ? std::string_view() : text(entry(index).value);
}

void Fields::remove(size_t index) {
  SLUICE_CHECK(index < count_);
  for (; index + 1 < count_; ++index) entry(index) = entry(index + 1);
  --count_;
}

size_t Fields::remove(std::string_view name) {
  size_t kept = find(name);
  if (kept == npos) return 0;
  for (size_t i = kept + 1, next = find(name, i); i < count_; ++i) {
    if (i == next) {
      next = find(name, i + 1);
    } else {
      entry(kept++) = entry(i);
    }
  }
  const size_t removed = count_ - kept;
  count_ = static_cast<uint16_t>(kept);
  return removed;
}

void Fields::clear() { *this = Fields(); }

bool Fields::make_room(ChunkPool& pool, size_t text_bytes, size_t entries, ChunkRef& old) {
  if (has_room(text_bytes, entries)) return true;
  const size_t texts = text_bytes_ + text_bytes;
  // Offsets and sizes have 16 bits.
  if (texts > UINT16_MAX) return false;
  const size_t bytes = texts + (count_ + entries) * sizeof(Entry);
  if (bytes > kMaxBytes) return false;
  if (!chunk_ || bytes > chunk_.capacity()) old = take_chunk(pool, bytes);
  return true;
}

// Moves to a chunk that holds `bytes`, and returns the previous one.
ChunkRef Fields::take_chunk(ChunkPool& pool, size_t bytes) {
  // Takes a whole tier's size, even from the heap.
  ChunkRef larger = ChunkRef::take(pool.get_metadata(tier_bytes(tier_for(bytes))));
  if (chunk_) {
    std::memcpy(larger.data(), chunk_.data(), text_bytes_);
    const size_t entry_bytes = count_ * sizeof(Entry);
    std::memcpy(larger.data() + larger.capacity() - entry_bytes, chunk_.data() + chunk_.capacity() - entry_bytes,
                entry_bytes);
  }
  return std::exchange(chunk_, std::move(larger));
}

}  // namespace sluice
