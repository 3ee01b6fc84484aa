#include "proxy/http/h2/hpack_encoder.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <initializer_list>
#include <string_view>
#include <utility>

#include "proxy/http/h2/field_rules.h"
#include "proxy/http/h2/frame.h"
#include "proxy/http/h2/hpack_integer.h"
#include "proxy/http/h2/huffman.h"

namespace sluice {
namespace {

// What a field takes beside its texts: its index (3 bytes with any pattern) and their two sizes.
constexpr size_t kFieldBytes = 3 + 2 * 4;
// The same of all pseudo-header fields, and the texts that are not among those of the head.
constexpr size_t kPseudoBytes = 5 * kFieldBytes + std::string_view(":protocolCONNECT").size();
constexpr size_t kSizeUpdates = 2 * 3;
constexpr size_t kChunkBytes = 1024;  // Consecutive heads share a chunk of this size.

// Sets of entries of the static table (RFC 7541 appendix A).
constexpr uint64_t set_of(std::initializer_list<unsigned> indices) {
  uint64_t set = 0;
  for (const unsigned index : indices) set |= uint64_t{1} << index;
  return set;
}
// Fields whose values mostly differ from message to message, so that an entry would not be used twice.
constexpr uint64_t kVolatile =
    set_of({/*:path*/ 4, /*age*/ 21, /*content-length*/ 28, /*etag*/ 34, /*if-modified-since*/ 40,
            /*if-none-match*/ 41, /*location*/ 46, /*set-cookie*/ 55});
// Credentials never enter a table, from which they could be guessed (section 7.1).
constexpr uint64_t kCredentials = set_of({/*authorization*/ 23, /*proxy-authorization*/ 49});
// Nor does a short Cookie (section 7.1.3).
constexpr unsigned kCookie = 32;
constexpr size_t kShortCookie = 20;

bool has(uint64_t set, unsigned index) { return (set >> index & 1) != 0; }

std::byte* put_text(std::byte* to, std::string_view text) {
  const size_t coded = huffman_size(text);
  if (coded < text.size()) return huffman_encode(text, hpack::put_integer(to, 0x80, 7, coded));
  to = hpack::put_integer(to, 0, 7, text.size());
  if (!text.empty()) std::memcpy(to, text.data(), text.size());
  return to + text.size();
}

}  // namespace

void HpackEncoder::set_table_bytes(uint32_t smallest, uint32_t bytes) {
  const uint32_t most = std::min(bytes, kHpackTableBytes);
  smallest_bytes_ = static_cast<uint16_t>(std::min({uint32_t{smallest_bytes_}, smallest, most}));
  table_.resize(smallest_bytes_);
  table_.resize(most);
}

void HpackEncoder::park() {
  if (table_.size() > 0) smallest_bytes_ = 0;
  table_.clear();
}

// A header block that is being encoded into frames.
class HpackEncoder::Block {
 public:
  // `bytes`: the most that the fields take.
  Block(HpackEncoder& encoder, ChunkPool& pool, Buffer& to, size_t bytes)
      : table_(encoder.table_), pool_(pool), to_(to) {
    bytes += Http2FrameHeader::kBytes + kSizeUpdates;
    if (bytes <= kChunkBytes) {
      room_ = frame_room(pool, to, bytes, kChunkBytes);
    } else {
      shared_ = false;
      room_ = Lease(ChunkRef::take(bytes <= kMaxChunkBytes ? pool.get_metadata(bytes) : heap_chunk(bytes)), 0, bytes);
    }
    at_ = room_.data() + Http2FrameHeader::kBytes;
    end_ = room_.data() + bytes;
    announce_size(encoder);
  }

  void add(std::string_view name, std::string_view value, bool sensitive = false) {
    SLUICE_CHECK(name.size() + value.size() + kFieldBytes <= static_cast<size_t>(end_ - at_));
    const HpackTable::StaticMatch found = HpackTable::find_static(name, value);
    if (sensitive || has(kCredentials, found.name) || (found.name == kCookie && value.size() < kShortCookie)) {
      const size_t named = found.name != 0 ? found.name : table_.find_name({found, name, {}}, name);
      return put_literal(0x10, 4, named, name, value);
    }
    if (found.field != 0) return put_index(found.field);
    if (has(kVolatile, found.name)) return put_literal(0, 4, found.name, name, value);
    const HpackTable::Tag tag(found, name, value);
    if (const size_t index = table_.find(tag, name, value)) return put_index(index);
    const size_t named = found.name != 0 ? found.name : table_.find_name(tag, name);
    // An entry that would evict most others is no gain.
    if (HpackTable::size_of(name, value) > table_.most_bytes() / 4 * 3) return put_literal(0, 4, named, name, value);
    put_literal(0x40, 6, named, name, value);
    table_.insert(pool_, name, value, tag);
  }
  enum class Of : uint8_t { kRequest, kResponse, kTrailers };
  void add(const Fields& fields, Of of) {
    for (const Fields::Field field : fields) {
      if (field.traits.ordinary || belongs(field, of)) add(field.name, field.value, field.traits.sensitive);
    }
  }

  void finish(uint32_t stream, bool end) {
    const auto bytes = static_cast<size_t>(at_ - room_.data());
    room_.truncate(bytes);
    Http2FrameHeader header{
        .type = Http2FrameType::kHeaders, .flags = end ? Http2FrameHeader::kEndStream : uint8_t{0}, .stream = stream};
    if (bytes > Http2FrameHeader::kBytes + kHttp2FrameBytes) return append_frames(header);
    header.length = static_cast<uint32_t>(bytes - Http2FrameHeader::kBytes);
    header.flags |= Http2FrameHeader::kEndHeaders;
    header.write(room_.data());
    // A block that needs little of its chunk is copied next to its neighbors.
    if (!shared_ && (bytes <= kChunkBytes || bytes < room_.tailroom())) {
      Lease room = frame_room(pool_, to_, bytes, kChunkBytes);
      std::memcpy(room.data(), room_.data(), bytes);
      room_ = std::move(room);
    }
    to_.append(std::move(room_));
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

  // The next sizes of the table, as far as the peer does not know them (RFC 7541 section 4.2).
  void announce_size(HpackEncoder& encoder) {
    const auto most = static_cast<uint16_t>(table_.most_bytes());
    if (encoder.smallest_bytes_ < std::min(most, encoder.announced_bytes_)) [[unlikely]] {
      at_ = hpack::put_integer(at_, 0x20, 5, encoder.smallest_bytes_);
      encoder.announced_bytes_ = encoder.smallest_bytes_;
    }
    if (encoder.announced_bytes_ != most) [[unlikely]]
      at_ = hpack::put_integer(at_, 0x20, 5, most);
    encoder.announced_bytes_ = encoder.smallest_bytes_ = most;
  }
  void put_index(size_t index) { at_ = hpack::put_integer(at_, 0x80, 7, index); }
  void put_literal(uint8_t pattern, unsigned prefix_bits, size_t index, std::string_view name, std::string_view value) {
    at_ = hpack::put_integer(at_, pattern, prefix_bits, index);
    if (index == 0) at_ = put_text(at_, name);
    at_ = put_text(at_, value);
  }
  void append_frames(Http2FrameHeader header) {
    room_.trim_front(Http2FrameHeader::kBytes);
    Buffer rest;
    rest.append(std::move(room_));
    do {
      const size_t size = std::min(rest.size(), size_t{kHttp2FrameBytes});
      header.length = static_cast<uint32_t>(size);
      if (size == rest.size()) header.flags |= Http2FrameHeader::kEndHeaders;
      Lease room = frame_room(pool_, to_, Http2FrameHeader::kBytes);
      header.write(room.data());
      to_.append(std::move(room));
      to_.append(rest.split_front(size));
      header.type = Http2FrameType::kContinuation;
      header.flags = 0;
    } while (!rest.empty());
  }

  HpackTable& table_;
  ChunkPool& pool_;
  Buffer& to_;
  Lease room_;     // For the frame header and the block.
  std::byte* at_;  // Behind what is written.
  const std::byte* end_;
  bool shared_ = true;  // The chunk has room for other frames.
};

void HpackEncoder::encode_head(ChunkPool& pool, const Head& head, uint32_t stream, bool end, Buffer& to) {
  // The parts of a request are among the texts.
  Block block(*this, pool, to, kPseudoBytes + head.fields.text_bytes() + head.fields.size() * kFieldBytes);
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
  Block block(*this, pool, to, trailers.text_bytes() + trailers.size() * kFieldBytes);
  block.add(trailers, Block::Of::kTrailers);
  block.finish(stream, true);
}

}  // namespace sluice
