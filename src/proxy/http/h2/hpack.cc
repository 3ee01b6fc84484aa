#include "proxy/http/h2/hpack.h"

#include <nghttp2/nghttp2.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "proxy/http/h2/field_rules.h"
#include "proxy/http/h2/frame.h"
#include "proxy/http/h2/hpack_memory.h"

namespace sluice {
namespace {

constexpr size_t kStaticEntries = 61;  // RFC 7541 appendix A.

std::string_view text_of(const uint8_t* bytes, size_t size) { return {reinterpret_cast<const char*>(bytes), size}; }

// RFC 7541 section 5.1.
std::byte* put_integer(std::byte* to, uint8_t pattern, unsigned prefix_bits, size_t value) {
  const size_t most = (size_t{1} << prefix_bits) - 1;
  if (value < most) {
    *to++ = static_cast<std::byte>(pattern | value);
    return to;
  }
  *to++ = static_cast<std::byte>(pattern | most);
  for (value -= most; value >= 128; value >>= 7) *to++ = static_cast<std::byte>(value % 128 + 128);
  *to++ = static_cast<std::byte>(value);
  return to;
}

std::byte* put_string(std::byte* to, std::string_view text) {
  to = put_integer(to, 0, 7, text.size());
  if (!text.empty()) std::memcpy(to, text.data(), text.size());
  return to + text.size();
}

// RFC 7541 section 5.1. Returns nothing if the integer is truncated or exceeds any limit.
std::optional<uint64_t> take_integer(std::span<const uint8_t>& from, unsigned prefix_bits) {
  if (from.empty()) return std::nullopt;
  const uint64_t most = (uint64_t{1} << prefix_bits) - 1;
  uint64_t value = from[0] & most;
  from = from.subspan(1);
  if (value < most) return value;
  for (unsigned shift = 0; shift < 28 && !from.empty(); shift += 7) {
    const uint8_t byte = from[0];
    from = from.subspan(1);
    value += uint64_t{byte & 0x7fu} << shift;
    if (byte < 0x80) return value;
  }
  return std::nullopt;
}

// Whether the field that begins at `offset` has a longer string than nghttp2 accepts. nghttp2 reports that like any
// other error. But a peer whose field is merely too large should not get COMPRESSION_ERROR, which means that its
// encoder is broken.
bool has_huge_string(const Buffer& fragment, size_t offset) {
  constexpr uint64_t kMostBytes = 65536;                 // NGHTTP2_HD_MAX_NAME and _VALUE.
  std::vector<uint8_t> field(fragment.size() - offset);  // The connection ends: a copy is not too much.
  fragment.copy_out(offset, std::as_writable_bytes(std::span(field)));
  std::span<const uint8_t> from = field;
  if (from.empty() || from[0] >= 0x80 || (from[0] & 0xe0) == 0x20) return false;
  const std::optional<uint64_t> index = take_integer(from, from[0] >= 0x40 ? 6 : 4);
  for (int strings = index == 0 ? 2 : 1; index && strings > 0; --strings) {
    const std::optional<uint64_t> bytes = take_integer(from, 7);
    if (bytes && *bytes > kMostBytes) return true;
    if (!bytes || *bytes > from.size()) return false;
    from = from.subspan(*bytes);
  }
  return false;
}

// Decodes a whole block and discards its fields, to rebuild the table. False if the block is malformed.
bool replay(nghttp2_hd_inflater* inflater, std::span<const std::byte> block) {
  const auto* at = reinterpret_cast<const uint8_t*>(block.data());
  const uint8_t* end = at + block.size();
  int flags = 0;
  do {
    nghttp2_nv field;
    const nghttp2_ssize read = nghttp2_hd_inflate_hd3(inflater, &field, &flags, at, static_cast<size_t>(end - at), 1);
    if (read < 0) return false;
    at += read;
  } while ((flags & NGHTTP2_HD_INFLATE_FINAL) == 0);
  nghttp2_hd_inflate_end_headers(inflater);
  return true;
}

}  // namespace

void HpackDecoder::wake() {
  inflater_ = new_hpack_inflater();
  if (parked_) SLUICE_CHECK(replay(inflater_, parked_.bytes()));
  parked_ = Lease();
}

bool HpackDecoder::restore(ChunkPool& pool, std::span<const std::byte> block) {
  if (block.empty()) return true;
  if (block.size() > 2 * kHpackTableBytes) return false;
  inflater_ = new_hpack_inflater();
  if (!replay(inflater_, block)) return false;
  park(pool);
  return true;
}

void HpackDecoder::restore_parked(ChunkPool& pool, std::span<const std::byte> block) {
  if (block.empty()) return;
  parked_ = Lease(ChunkRef::take(pool.get_metadata(block.size())), 0, 0);
  parked_.grow_back(block.size());
  std::memcpy(parked_.data(), block.data(), block.size());
}

void HpackDecoder::forget() {
  if (inflater_) nghttp2_hd_inflate_del(std::exchange(inflater_, nullptr));
}

HpackDecoder::Status HpackDecoder::decode(ChunkPool& pool, const Http2Limits& limits, const Buffer& fragment, bool last,
                                          Http2HeaderBlock& block) {
  if (!inflater_) wake();
  size_t windows_left = fragment.window_count();
  size_t taken = 0, field_begin = 0;  // Offsets in the fragment.
  auto window = fragment.windows().begin();
  do {  // Runs once even for an empty fragment.
    const std::span<const std::byte> bytes = windows_left > 0 ? *window : std::span<const std::byte>();
    if (windows_left > 0) --windows_left, ++window;
    static constexpr uint8_t kNothing = 0;  // nghttp2 adds to the pointer, which must not be null.
    const auto* at = bytes.empty() ? &kNothing : reinterpret_cast<const uint8_t*>(bytes.data());
    size_t left = bytes.size();
    const bool final = last && windows_left == 0;
    while (true) {
      nghttp2_nv field;
      int flags = 0;
      const nghttp2_ssize read = nghttp2_hd_inflate_hd3(inflater_, &field, &flags, at, left, final ? 1 : 0);
      if (read < 0) return has_huge_string(fragment, field_begin) ? Status::kTooLarge : Status::kBroken;
      at += read;
      left -= static_cast<size_t>(read);
      taken += static_cast<size_t>(read);
      if ((flags & NGHTTP2_HD_INFLATE_EMIT) != 0) {
        field_begin = taken;
        const bool sensitive = (field.flags & NGHTTP2_NV_FLAG_NO_INDEX) != 0;
        if (!block.add(pool, limits, text_of(field.name, field.namelen), text_of(field.value, field.valuelen),
                       sensitive)) {
          return Status::kTooLarge;
        }
      }
      if ((flags & NGHTTP2_HD_INFLATE_FINAL) != 0) {
        nghttp2_hd_inflate_end_headers(inflater_);
        return Status::kGood;
      }
      if ((flags & NGHTTP2_HD_INFLATE_EMIT) == 0 && left == 0) break;
    }
  } while (windows_left > 0);
  return last ? Status::kBroken : Status::kGood;
}

void HpackDecoder::park(ChunkPool& pool) {
  if (!inflater_) return;
  const size_t entries = nghttp2_hd_inflate_get_num_table_entries(inflater_);
  const size_t table_bytes = nghttp2_hd_inflate_get_max_dynamic_table_size(inflater_);
  constexpr size_t kIntegerBytes = 6;
  size_t bytes = kIntegerBytes;
  const auto entry = [this](size_t index) { return nghttp2_hd_inflate_get_table_entry(inflater_, index); };
  for (size_t i = kStaticEntries + 1; i <= entries; ++i) {
    bytes += 1 + 2 * kIntegerBytes + entry(i)->namelen + entry(i)->valuelen;
  }
  if (entries > kStaticEntries || table_bytes != kHpackTableBytes) {
    // Literals with indexing and new names, oldest first. They take less than kHpackTableBytes, where each entry counts
    // 32 bytes of overhead; a table of another size adds a size update.
    Lease block(ChunkRef::take(pool.get_metadata(bytes)), 0, 0);
    std::byte* to = block.data();
    std::byte* begin = to;
    if (table_bytes != kHpackTableBytes) to = put_integer(to, 0x20, 5, table_bytes);
    for (size_t i = entries; i > kStaticEntries; --i) {
      *to++ = std::byte{0x40};
      to = put_string(to, text_of(entry(i)->name, entry(i)->namelen));
      to = put_string(to, text_of(entry(i)->value, entry(i)->valuelen));
    }
    block.grow_back(static_cast<size_t>(to - begin));
    restore_parked(pool, block.bytes());  // In the smallest tier, because the sum above was an upper bound.
  }
  forget();
}

void HpackEncoder::wake() {
  deflater_ = new_hpack_deflater(kHpackTableBytes);
  if (used_) nghttp2_hd_deflate_change_table_size(deflater_, 0);
  if (used_ || table_bytes_ != kHpackTableBytes) nghttp2_hd_deflate_change_table_size(deflater_, table_bytes_);
  used_ = true;
}

void HpackEncoder::forget() {
  if (deflater_) nghttp2_hd_deflate_del(std::exchange(deflater_, nullptr));
}

void HpackEncoder::set_table_bytes(uint32_t smallest, uint32_t bytes) {
  table_bytes_ = std::min(bytes, kHpackTableBytes);
  if (!deflater_) {
    // The next deflater begins with the size at that time. A smaller size in between must be signaled too, which a
    // change to 0 and back does.
    used_ = used_ || smallest < table_bytes_;
    return;
  }
  if (smallest < table_bytes_) nghttp2_hd_deflate_change_table_size(deflater_, smallest);
  nghttp2_hd_deflate_change_table_size(deflater_, table_bytes_);
}

// A header block that is being encoded into frames.
class HpackEncoder::Block {
 public:
  Block(nghttp2_hd_deflater* deflater, ChunkPool& pool, Buffer& to) : deflater_(deflater), pool_(pool), to_(to) {}

  void add(std::string_view name, std::string_view value, bool sensitive = false) {
    if (count_ == fields_.size() || text_bytes_ + name.size() + value.size() > kBatchBytes) encode();
    const auto pointer = [](std::string_view text) {  // Never null.
      return const_cast<uint8_t*>(reinterpret_cast<const uint8_t*>(text.empty() ? "" : text.data()));
    };
    const uint8_t flags = sensitive ? NGHTTP2_NV_FLAG_NO_INDEX : NGHTTP2_NV_FLAG_NONE;
    fields_[count_++] = {pointer(name), pointer(value), name.size(), value.size(), flags};
    text_bytes_ += name.size() + value.size();
  }
  enum class Of : uint8_t { kRequest, kResponse, kTrailers };
  void add(const Fields& fields, Of of) {
    for (const Fields::Field field : fields) {
      if (belongs(field, of)) add(field.name, field.value, field.traits.sensitive || is_secret(field.name));
    }
  }

  void finish(uint32_t stream, bool end) {
    encode();
    const uint8_t end_flag = end ? Http2FrameHeader::kEndStream : uint8_t{0};
    if (!block_) {  // The usual case: the whole block follows the room for its frame header.
      const size_t size = first_.size() - Http2FrameHeader::kBytes;
      if (size <= kHttp2FrameBytes) {
        Http2FrameHeader{.length = static_cast<uint32_t>(size),
                         .type = Http2FrameType::kHeaders,
                         .flags = static_cast<uint8_t>(end_flag | Http2FrameHeader::kEndHeaders),
                         .stream = stream}
            .write(first_.data());
        return append_first();
      }
      move_first();
    }
    Http2FrameHeader header{.type = Http2FrameType::kHeaders, .flags = end_flag, .stream = stream};
    do {
      const size_t size = std::min(rest_.size(), size_t{kHttp2FrameBytes});
      header.length = static_cast<uint32_t>(size);
      if (size == rest_.size()) header.flags |= Http2FrameHeader::kEndHeaders;
      Lease room = frame_room(pool_, to_, Http2FrameHeader::kBytes);
      header.write(room.data());
      to_.append(std::move(room));
      to_.append(rest_.split_front(size));
      header.type = Http2FrameType::kContinuation;
      header.flags = 0;
    } while (!rest_.empty());
  }

 private:
  static bool belongs(const Fields::Field& field, Of of) {
    switch (field.name.size()) {
      case 0:
        return false;
      case 2:
        return field.name != "te" || (of != Of::kTrailers && field.value == "trailers");
      case 4:
        return field.name != "host" || of == Of::kResponse;  // In a response it is an ordinary field.
      default:
        return !http2::is_connection_specific(field.name);
    }
  }
  // Credentials never enter a table, from which they could be guessed (RFC 7541 section 7.1).
  static bool is_secret(std::string_view name) {
    return (name.size() == 13 && name == "authorization") || (name.size() == 19 && name == "proxy-authorization");
  }

  static constexpr size_t kBatchBytes = 32 * 1024;
  static constexpr size_t kChunkBytes = 1024;  // Consecutive heads share a chunk of this size.

  void encode() {
    if (count_ == 0 && first_) return;
    const size_t bound = nghttp2_hd_deflate_bound(deflater_, fields_.data(), count_);
    Lease room;
    const bool is_first = !first_ && !block_;
    const size_t before = is_first ? Http2FrameHeader::kBytes : 0;
    if (before + bound > kMaxChunkBytes) {
      room = Lease(ChunkRef::take(heap_chunk(before + bound)), 0, before + bound);
    } else {
      room = Lease(ChunkRef::take(pool_.get_metadata(before + bound)), 0, 0);
      room.grow_back(before + bound);
    }
    const nghttp2_ssize size = nghttp2_hd_deflate_hd2(deflater_, reinterpret_cast<uint8_t*>(room.data()) + before,
                                                      bound, fields_.data(), count_);
    SLUICE_CHECK(size >= 0);
    room.truncate(before + static_cast<size_t>(size));
    count_ = 0;
    text_bytes_ = 0;
    if (is_first) {
      first_ = std::move(room);
    } else {
      if (!block_) move_first();
      rest_.append(std::move(room));
    }
  }
  // A block that needs little of its chunk is copied next to its neighbors.
  void append_first() {
    if (first_.size() > kChunkBytes && first_.size() * 2 > first_.size() + first_.tailroom()) {
      return to_.append(std::move(first_));
    }
    Lease room = frame_room(pool_, to_, first_.size(), kChunkBytes);
    std::memcpy(room.data(), first_.data(), first_.size());
    to_.append(std::move(room));
  }
  void move_first() {
    block_ = true;
    first_.trim_front(Http2FrameHeader::kBytes);
    rest_.append(std::move(first_));
  }

  nghttp2_hd_deflater* deflater_;
  ChunkPool& pool_;
  Buffer& to_;
  Lease first_;  // Room for the frame header, and the first part of the block.
  Buffer rest_;  // The whole block, if it takes more than first_.
  bool block_ = false;
  size_t count_ = 0;
  size_t text_bytes_ = 0;
  std::array<nghttp2_nv, 48> fields_;
};

void HpackEncoder::encode_head(ChunkPool& pool, const Head& head, uint32_t stream, bool end, Buffer& to) {
  if (!deflater_) wake();
  Block block(deflater_, pool, to);
  std::array<char, 3> status;
  if (head.status != 0) {
    std::to_chars(status.data(), status.data() + status.size(), head.status);
    block.add(":status", {status.data(), status.size()});
  } else {
    // An HTTP/1.1 Upgrade has the method GET.
    const bool extended = !head.protocol().empty();
    const std::string_view method = extended ? "CONNECT" : head.method();
    block.add(":method", method);
    if (extended) block.add(":protocol", head.protocol());
    if (extended || method != "CONNECT") {
      block.add(":scheme", head.scheme());
      block.add(":path", head.path());
    }
    if (!head.authority().empty()) block.add(":authority", head.authority());
  }
  block.add(head.fields, head.status == 0 ? Block::Of::kRequest : Block::Of::kResponse);
  block.finish(stream, end);
}

void HpackEncoder::encode_trailers(ChunkPool& pool, const Fields& trailers, uint32_t stream, Buffer& to) {
  if (!deflater_) wake();
  Block block(deflater_, pool, to);
  block.add(trailers, Block::Of::kTrailers);
  block.finish(stream, true);
}

}  // namespace sluice
