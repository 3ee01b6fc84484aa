#include "proxy/http/h2/hpack_decoder.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <string_view>
#include <utility>

#include "proxy/http/h2/hpack_integer.h"
#include "proxy/http/h2/huffman.h"

namespace sluice {
namespace {

using Status = HpackDecoder::Status;

constexpr size_t kMostStringBytes = 65536;  // As coded; nghttp2's bound.

std::string_view text_of(std::span<const uint8_t> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// Reads a block from its begin. What is incomplete, or malformed, is nothing, and ends the reading.
class Reader {
 public:
  explicit Reader(std::span<const uint8_t> bytes) : at_(bytes.data()), end_(at_ + bytes.size()) {}

  // RFC 7541 section 5.1; of 32 bits at most.
  std::optional<uint32_t> integer(unsigned prefix_bits) {
    if (at_ == end_) return std::nullopt;
    const uint32_t most = (1u << prefix_bits) - 1;
    uint64_t value = *at_++ & most;
    if (value < most) return static_cast<uint32_t>(value);
    for (unsigned shift = 0; at_ != end_; shift += 7) {
      const uint8_t byte = *at_++;
      value += uint64_t{byte & 0x7fu} << shift;
      if (value > UINT32_MAX || (shift == 28 && byte >= 0x80)) {
        malformed_ = true;
        break;
      }
      if (byte < 0x80) return static_cast<uint32_t>(value);
    }
    return std::nullopt;
  }

  struct String {
    std::span<const uint8_t> coded;
    bool huffman = false;

    size_t room() const { return huffman ? huffman_room(coded.size()) : 0; }
    // The decoded text, which is in `room` if it is coded; that is reduced. Nothing if it is malformed.
    std::optional<std::string_view> decode(std::span<char>& room) const {
      if (!huffman) return text_of(coded);
      const std::optional<size_t> size = huffman_decode(coded, room.data());
      if (!size) return std::nullopt;
      const std::string_view text(room.data(), *size);
      room = room.subspan(*size);
      return text;
    }
  };
  // RFC 7541 section 5.2. `most_chars`: more are too large.
  std::optional<String> string(size_t most_chars) {
    if (at_ == end_) return std::nullopt;
    String made;
    made.huffman = (*at_ & 0x80) != 0;
    const std::optional<uint32_t> size = integer(7);
    if (!size) return std::nullopt;
    if (*size > kMostStringBytes || (made.huffman ? huffman_fewest_chars(*size) : *size) > most_chars) {
      too_large_ = true;
      return std::nullopt;
    }
    if (*size > static_cast<size_t>(end_ - at_)) return std::nullopt;
    made.coded = {at_, *size};
    at_ += *size;
    return made;
  }

  const uint8_t* at() const { return at_; }
  // Behind a result that is nothing: kGood if it is incomplete.
  Status status() const { return too_large_ ? Status::kTooLarge : malformed_ ? Status::kBroken : Status::kGood; }

 private:
  const uint8_t* at_;
  const uint8_t* const end_;
  bool malformed_ = false, too_large_ = false;
};

// Room for decoded strings.
class Scratch {
 public:
  Scratch(ChunkPool& pool, size_t bytes) {
    if (bytes <= small_.size()) return;
    large_ = ChunkRef::take(bytes <= kMaxChunkBytes ? pool.get_metadata(bytes) : heap_chunk(bytes));
  }
  std::span<char> room() {
    if (!large_) return small_;
    return {reinterpret_cast<char*>(large_.data()), large_.capacity()};
  }

 private:
  std::array<char, 1024> small_;
  ChunkRef large_;
};

}  // namespace

// `taken`: the bytes of all whole fields.
template <class Emit>
Status HpackDecoder::take_fields(ChunkPool& pool, size_t most_chars, std::span<const uint8_t> bytes, size_t& taken,
                                 Emit emit) {
  while (taken < bytes.size()) {
    const std::span<const uint8_t> left = bytes.subspan(taken);
    const uint8_t first = left[0];
    Reader in(left);
    if (first >= 0x80) {  // Indexed: section 6.1.
      const std::optional<uint32_t> index = in.integer(7);
      if (!index) return in.status();
      const std::optional<HpackTable::Field> field = table_.at(*index);
      if (!field) return Status::kBroken;
      if (!emit(field->name, field->value, false)) return Status::kTooLarge;
    } else if ((first & 0xe0) == 0x20) {  // A new size of the table: section 6.3.
      if (has_field_) return Status::kBroken;
      const std::optional<uint32_t> size = in.integer(5);
      if (!size) return in.status();
      if (!table_.resize(*size)) return Status::kBroken;
      taken += static_cast<size_t>(in.at() - left.data());
      continue;
    } else {
      const size_t before = taken;
      const Status status = take_literal(pool, most_chars, left, taken, emit);
      if (status != Status::kGood || taken == before) return status;
      has_field_ = true;
      continue;
    }
    has_field_ = true;
    taken += static_cast<size_t>(in.at() - left.data());
  }
  return Status::kGood;
}

// Section 6.2: with indexing, without, and never.
template <class Emit>
Status HpackDecoder::take_literal(ChunkPool& pool, size_t most_chars, std::span<const uint8_t> bytes, size_t& taken,
                                  Emit emit) {
  const bool indexes = bytes[0] >= 0x40, sensitive = !indexes && (bytes[0] & 0x10) != 0;
  Reader in(bytes);
  const std::optional<uint32_t> index = in.integer(indexes ? 6 : 4);
  if (!index) return in.status();
  std::optional<HpackTable::Field> named;
  Reader::String coded_name;
  if (*index != 0) {
    named = table_.at(*index);
    if (!named) return Status::kBroken;
  } else {
    const std::optional<Reader::String> read = in.string(most_chars);
    if (!read) return in.status();
    coded_name = *read;
  }
  const std::optional<Reader::String> coded_value = in.string(most_chars);
  if (!coded_value) return in.status();
  taken += static_cast<size_t>(in.at() - bytes.data());

  Scratch scratch(pool, coded_name.room() + coded_value->room());
  std::span<char> room = scratch.room();
  const std::optional<std::string_view> name = named ? named->name : coded_name.decode(room);
  const std::optional<std::string_view> value = coded_value->decode(room);
  if (!name || !value) return Status::kBroken;
  if (!emit(*name, *value, sensitive)) return Status::kTooLarge;
  if (indexes) table_.insert(pool, *name, *value);
  return Status::kGood;
}

// A field that goes on in the next window, or the next frame, is kept until all of it is there.
template <class Emit>
Status HpackDecoder::take_window(ChunkPool& pool, size_t most_chars, std::span<const std::byte> window, Emit emit) {
  const auto bytes_of = [](std::span<const std::byte> bytes) {
    return std::span(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size());
  };
  size_t taken = 0;
  if (kept_.size() == 0) {
    const Status status = take_fields(pool, most_chars, bytes_of(window), taken, emit);
    if (status == Status::kGood && taken < window.size()) keep(pool, window.subspan(taken));
    return status;
  }
  keep(pool, window);
  const Status status = take_fields(pool, most_chars, bytes_of(kept_.bytes()), taken, emit);
  kept_.trim_front(taken);
  if (kept_.size() == 0) kept_ = Lease();
  return status;
}

// Adds to what is kept.
void HpackDecoder::keep(ChunkPool& pool, std::span<const std::byte> bytes) {
  const size_t before = kept_.size();
  if (!kept_ || kept_.tailroom() < bytes.size()) {
    const size_t needed = 2 * (before + bytes.size());
    Lease larger(ChunkRef::take(needed <= kMaxChunkBytes ? pool.get_metadata(needed) : heap_chunk(needed)), 0, before);
    if (before > 0) std::memcpy(larger.data(), kept_.data(), before);
    kept_ = std::move(larger);
  }
  kept_.grow_back(bytes.size());
  std::memcpy(kept_.data() + before, bytes.data(), bytes.size());
}

Status HpackDecoder::decode(ChunkPool& pool, const Http2Limits& limits, const Buffer& fragment, bool last,
                            Http2HeaderBlock& block) {
  if (!in_block_) wake(pool);
  in_block_ = true;
  const auto emit = [&](std::string_view name, std::string_view value, bool sensitive) {
    return block.add(pool, limits, name, value, sensitive);
  };
  for (const std::span<const std::byte> window : fragment.windows()) {
    if (window.empty()) continue;
    const Status status = take_window(pool, size_t{2} * limits.header_list_bytes, window, emit);
    if (status != Status::kGood) return status;
  }
  if (!last) return Status::kGood;
  if (kept_.size() > 0) return Status::kBroken;
  in_block_ = has_field_ = false;
  return Status::kGood;
}

// Decodes a whole block and discards its fields, to rebuild the table. False if the block is malformed.
bool HpackDecoder::replay(ChunkPool& pool, std::span<const std::byte> block) {
  const auto discard = [](std::string_view, std::string_view, bool) { return true; };
  const std::span bytes(reinterpret_cast<const uint8_t*>(block.data()), block.size());
  size_t taken = 0;
  const Status status = take_fields(pool, kMostStringBytes, bytes, taken, discard);
  has_field_ = false;
  return status == Status::kGood && taken == bytes.size();
}

void HpackDecoder::wake(ChunkPool& pool) {
  if (kept_.size() == 0) return;
  const Lease block = std::exchange(kept_, Lease());
  SLUICE_CHECK(replay(pool, block.bytes()));
}

bool HpackDecoder::restore(ChunkPool& pool, std::span<const std::byte> block) {
  if (block.size() > 2 * kHpackTableBytes) return false;
  if (!replay(pool, block)) return false;
  park(pool);
  return true;
}

void HpackDecoder::restore_parked(ChunkPool& pool, std::span<const std::byte> block) {
  if (block.empty()) return;
  kept_ = Lease(ChunkRef::take(pool.get_metadata(block.size())), 0, 0);
  kept_.grow_back(block.size());
  std::memcpy(kept_.data(), block.data(), block.size());
}

void HpackDecoder::park(ChunkPool& pool) {
  const bool has_size = table_.most_bytes() != kHpackTableBytes;
  if (table_.size() == 0 && (!has_size || kept_.size() > 0)) return table_.clear();
  // Literals with indexing and new names, oldest first. They take less than kHpackTableBytes, where each entry counts
  // 32 bytes of overhead; a table of another size adds a size update.
  size_t bytes = hpack::kIntegerBytes;
  for (size_t i = table_.size(); i > 0; --i) {
    const HpackTable::Field field = *table_.at(HpackTable::kStaticEntries + i);
    bytes += 1 + 2 * hpack::kIntegerBytes + field.name.size() + field.value.size();
  }
  Lease block(ChunkRef::take(pool.get_metadata(bytes)), 0, 0);
  std::byte* to = block.data();
  if (has_size) to = hpack::put_integer(to, 0x20, 5, table_.most_bytes());
  const auto put_string = [&](std::string_view text) {
    to = hpack::put_integer(to, 0, 7, text.size());
    if (!text.empty()) std::memcpy(to, text.data(), text.size());
    to += text.size();
  };
  for (size_t i = table_.size(); i > 0; --i) {
    const HpackTable::Field field = *table_.at(HpackTable::kStaticEntries + i);
    *to++ = std::byte{0x40};
    put_string(field.name);
    put_string(field.value);
  }
  block.grow_back(static_cast<size_t>(to - block.data()));
  restore_parked(pool, block.bytes());  // In the smallest tier, because the sum above was an upper bound.
  table_ = HpackTable();
}

}  // namespace sluice
