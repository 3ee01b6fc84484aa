#include "proxy/http/h2/hpack_table.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "proxy/common/short_text.h"

namespace sluice {
namespace {

// RFC 7541 appendix A.
constexpr std::array<HpackTable::Field, HpackTable::kStaticEntries> kStaticTable = {{
    {":authority", ""},
    {":method", "GET"},
    {":method", "POST"},
    {":path", "/"},
    {":path", "/index.html"},
    {":scheme", "http"},
    {":scheme", "https"},
    {":status", "200"},
    {":status", "204"},
    {":status", "206"},
    {":status", "304"},
    {":status", "400"},
    {":status", "404"},
    {":status", "500"},
    {"accept-charset", ""},
    {"accept-encoding", "gzip, deflate"},
    {"accept-language", ""},
    {"accept-ranges", ""},
    {"accept", ""},
    {"access-control-allow-origin", ""},
    {"age", ""},
    {"allow", ""},
    {"authorization", ""},
    {"cache-control", ""},
    {"content-disposition", ""},
    {"content-encoding", ""},
    {"content-language", ""},
    {"content-length", ""},
    {"content-location", ""},
    {"content-range", ""},
    {"content-type", ""},
    {"cookie", ""},
    {"date", ""},
    {"etag", ""},
    {"expect", ""},
    {"expires", ""},
    {"from", ""},
    {"host", ""},
    {"if-match", ""},
    {"if-modified-since", ""},
    {"if-none-match", ""},
    {"if-range", ""},
    {"if-unmodified-since", ""},
    {"last-modified", ""},
    {"link", ""},
    {"location", ""},
    {"max-forwards", ""},
    {"proxy-authenticate", ""},
    {"proxy-authorization", ""},
    {"range", ""},
    {"referer", ""},
    {"refresh", ""},
    {"retry-after", ""},
    {"server", ""},
    {"set-cookie", ""},
    {"strict-transport-security", ""},
    {"transfer-encoding", ""},
    {"user-agent", ""},
    {"vary", ""},
    {"via", ""},
    {"www-authenticate", ""},
}};

// The names of the static table by a perfect hash of their size, first and last character.
class StaticNames {
 public:
  constexpr StaticNames() {
    for (uint8_t i = 0; i < kStaticTable.size(); ++i) {
      const std::string_view name = kStaticTable[i].name;
      Slot& slot = slots_[slot_of(name)];
      const bool is_new = slot.count == 0;
      is_perfect_ = is_perfect_ && (is_new || kStaticTable[slot.first].name == name);
      if (is_new) slot.first = i;
      ++slot.count;
    }
  }
  struct Slot {
    uint8_t first = 0, count = 0;  // Entries of the same name follow each other.
  };
  // Precondition: the name is not empty.
  constexpr Slot candidate(std::string_view name) const { return slots_[slot_of(name)]; }
  constexpr bool is_perfect() const { return is_perfect_; }

 private:
  static constexpr unsigned kBits = 7;
  // Found by trial, so that no two names have the same slot.
  static constexpr uint32_t kMultiplier = 0xb8f11b8f;
  static constexpr size_t slot_of(std::string_view name) {
    const uint32_t key = static_cast<uint32_t>(name.size()) << 16 | uint32_t{static_cast<uint8_t>(name.front())} << 8 |
                         static_cast<uint8_t>(name.back());
    return key * kMultiplier >> (32 - kBits);
  }
  std::array<Slot, size_t{1} << kBits> slots_{};
  bool is_perfect_ = true;
};

constexpr StaticNames kStaticNames;
static_assert(kStaticNames.is_perfect());

// Of its size and of its first and last eight characters: fields that differ mostly differ there.
inline uint8_t hash_of(std::string_view text) {
  uint64_t first = 0, last = 0;
  if (text.size() >= sizeof first) {
    std::memcpy(&first, text.data(), sizeof first);
    std::memcpy(&last, text.data() + text.size() - sizeof last, sizeof last);
  } else {
    for (const char c : text) first = first << 8 | static_cast<uint8_t>(c);
  }
  constexpr uint64_t kMultiplier = 0x9e3779b97f4a7c15;  // Of Fibonacci hashing: 2^64 divided by the golden ratio.
  return static_cast<uint8_t>((((first * kMultiplier) ^ last) + text.size()) * kMultiplier >> 56);
}

}  // namespace

HpackTable::StaticMatch HpackTable::find_static(std::string_view name, std::string_view value) {
  if (name.empty()) return {};
  const StaticNames::Slot slot = kStaticNames.candidate(name);
  if (slot.count == 0 || !equal_short(kStaticTable[slot.first].name, name)) return {};
  const auto index = static_cast<uint8_t>(slot.first + 1);
  for (uint8_t i = 0; i < slot.count; ++i) {
    if (equal_short(kStaticTable[slot.first + i].value, value)) return {index, static_cast<uint8_t>(index + i)};
  }
  return {index, 0};
}

HpackTable::Tag::Tag(StaticMatch found, std::string_view name, std::string_view value)
    : name_(found.name != 0 ? found.name : hash_of(name) | 0x80), value_(hash_of(value)) {}

std::optional<HpackTable::Field> HpackTable::at(uint64_t index) const {
  if (index == 0 || index > kStaticEntries + count_) return std::nullopt;
  if (index <= kStaticEntries) return kStaticTable[index - 1];
  const Entry& found = entry(first_ + count_ - (index - kStaticEntries));
  return Field{name_of(found), value_of(found)};
}

// Whether an entry has a name; the tag of a name of the static table is its index.
inline bool HpackTable::has_name(const Entry& entry, Tag tag, std::string_view name, const char* texts) {
  return entry.tag.name_ == tag.name_ && entry.name_size == name.size() &&
         (tag.name_ < 0x80 || equal_short(std::string_view(texts + entry.offset, entry.name_size), name));
}

// Entries follow each other from the newest to the oldest.
size_t HpackTable::find(Tag tag, std::string_view name, std::string_view value) const {
  if (count_ == 0) return 0;
  const Entry* const newest = &entry(first_ + count_ - size_t{1});
  const char* const texts = text(0);
  for (const Entry* at = newest; at != newest + count_; ++at) {
    if (at->tag.value_ != tag.value_ || at->value_size != value.size() || !has_name(*at, tag, name, texts)) continue;
    const std::string_view has(texts + at->offset + at->name_size, at->value_size);
    if (equal_short(has, value)) return kStaticEntries + 1 + static_cast<size_t>(at - newest);
  }
  return 0;
}

size_t HpackTable::find_name(Tag tag, std::string_view name) const {
  if (count_ == 0) return 0;
  const Entry* const newest = &entry(first_ + count_ - size_t{1});
  for (const Entry* at = newest; at != newest + count_; ++at) {
    if (has_name(*at, tag, name, text(0))) return kStaticEntries + 1 + static_cast<size_t>(at - newest);
  }
  return 0;
}

void HpackTable::evict_above(size_t bytes) {
  while (bytes_ > bytes) {
    const Entry& oldest = entry(first_++);
    bytes_ = static_cast<uint16_t>(bytes_ - oldest.name_size - oldest.value_size - kOverhead);
    --count_;
  }
}

void HpackTable::insert(ChunkPool& pool, std::string_view name, std::string_view value, Tag tag) {
  const size_t text_bytes = name.size() + value.size();
  if (text_bytes + kOverhead > most_bytes_) return evict_above(0);  // RFC 7541 section 4.4.
  evict_above(most_bytes_ - text_bytes - kOverhead);
  ChunkRef before;  // `name` may be in it.
  if (!chunk_ || text_end_ + text_bytes + (first_ + count_ + 1) * sizeof(Entry) > chunk_.capacity()) {
    before = move_to_larger(pool, text_bytes);
  }
  if (!name.empty()) std::memcpy(text(text_end_), name.data(), name.size());
  if (!value.empty()) std::memcpy(text(text_end_ + name.size()), value.data(), value.size());
  entry(first_ + count_) = {text_end_, static_cast<uint16_t>(name.size()), static_cast<uint16_t>(value.size()), tag};
  ++count_;
  text_end_ = static_cast<uint16_t>(text_end_ + text_bytes);
  bytes_ = static_cast<uint16_t>(bytes_ + text_bytes + kOverhead);
}

// To a chunk with room for one more entry, and for twice of what there is then: what is inserted next mostly fits.
// Returns the chunk from before.
ChunkRef HpackTable::move_to_larger(ChunkPool& pool, size_t text_bytes) {
  constexpr size_t kLeastBytes = 256;
  const size_t from = count_ == 0 ? text_end_ : entry(first_).offset;
  const size_t live = text_end_ - from;
  const size_t needed = live + text_bytes + (count_ + size_t{1}) * sizeof(Entry);
  ChunkRef old = std::exchange(chunk_, ChunkRef::take(pool.get_metadata(std::max(kLeastBytes, 2 * needed))));
  if (live > 0) std::memcpy(text(0), old.data() + from, live);
  const auto* const old_end = reinterpret_cast<const Entry*>(old ? old.data() + old.capacity() : nullptr);
  for (size_t i = 0; i < count_; ++i) {
    const Entry& each = *(old_end - 1 - first_ - i);
    entry(i) = {static_cast<uint16_t>(each.offset - from), each.name_size, each.value_size, each.tag};
  }
  first_ = 0;
  text_end_ = static_cast<uint16_t>(live);
  return old;
}

bool HpackTable::resize(uint64_t most_bytes) {
  if (most_bytes > kHpackTableBytes) return false;
  most_bytes_ = static_cast<uint16_t>(most_bytes);
  evict_above(most_bytes_);
  return true;
}

void HpackTable::clear() {
  chunk_ = ChunkRef();
  text_end_ = first_ = count_ = bytes_ = 0;
}

}  // namespace sluice
