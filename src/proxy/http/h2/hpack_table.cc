#include "proxy/http/h2/hpack_table.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

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

}  // namespace

std::optional<HpackTable::Field> HpackTable::at(uint64_t index) const {
  if (index == 0 || index > kStaticEntries + count_) return std::nullopt;
  if (index <= kStaticEntries) return kStaticTable[index - 1];
  const Entry& found = entry(first_ + count_ - (index - kStaticEntries));
  return Field{{text(found.offset), found.name_size}, {text(found.offset + found.name_size), found.value_size}};
}

void HpackTable::evict_above(size_t bytes) {
  while (bytes_ > bytes) {
    const Entry& oldest = entry(first_++);
    bytes_ = static_cast<uint16_t>(bytes_ - oldest.name_size - oldest.value_size - kOverhead);
    --count_;
  }
}

void HpackTable::insert(ChunkPool& pool, std::string_view name, std::string_view value) {
  const size_t text_bytes = name.size() + value.size();
  if (text_bytes + kOverhead > most_bytes_) return evict_above(0);  // RFC 7541 section 4.4.
  evict_above(most_bytes_ - text_bytes - kOverhead);
  ChunkRef before;  // `name` may be in it.
  if (!chunk_ || text_end_ + text_bytes + (first_ + count_ + 1) * sizeof(Entry) > chunk_.capacity()) {
    before = move_to_larger(pool, text_bytes);
  }
  if (!name.empty()) std::memcpy(text(text_end_), name.data(), name.size());
  if (!value.empty()) std::memcpy(text(text_end_ + name.size()), value.data(), value.size());
  entry(first_ + count_) = {text_end_, static_cast<uint16_t>(name.size()), static_cast<uint16_t>(value.size())};
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
    entry(i) = {static_cast<uint16_t>(each.offset - from), each.name_size, each.value_size};
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
