#include "proxy/http/h2/hpack_encoder.h"

#include <nghttp2/nghttp2.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <span>
#include <string_view>
#include <utility>

#include "proxy/http/h2/field_rules.h"
#include "proxy/http/h2/frame.h"
#include "proxy/http/h2/hpack_memory.h"

namespace sluice {

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
