#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <utility>

#include "sluice/buffer.h"
#include "sluice/copied.h"
#include "sluice/internal/check.h"

namespace sluice::inline v0_1 {

/// Writes typed values to the end of a buffer. The buffer receives them at commit() or when the appender is destroyed,
/// and must not be used before that. When the pool's budget is used up, `ok()` stays false and nothing more is written.
///
///     Appender out(frame, pool);
///     out.u24be(payload_bytes);
///     out.u8(type);
///     out.text("hello");
class Appender {
 public:
  /// Takes chunks of `chunk_bytes` when the buffer has no tailroom. Precondition: 8 <= chunk_bytes <= kMaxChunkBytes.
  Appender(Buffer& buffer, ChunkPool& pool, size_t chunk_bytes = 1024)
      : buffer_(buffer), pool_(pool), chunk_bytes_(chunk_bytes) {}
  ~Appender() { commit(); }
  Appender(const Appender&) = delete;
  Appender& operator=(const Appender&) = delete;

  bool ok() const { return ok_; }

  void u8(uint8_t value) { put<1>(value, false); }
  void u16be(uint16_t value) { put<2>(value, false); }
  void u24be(uint32_t value) { put<3>(value, false); }
  void u32be(uint32_t value) { put<4>(value, false); }
  void u64be(uint64_t value) { put<8>(value, false); }
  void u16le(uint16_t value) { put<2>(value, true); }
  void u24le(uint32_t value) { put<3>(value, true); }
  void u32le(uint32_t value) { put<4>(value, true); }
  void u64le(uint64_t value) { put<8>(value, true); }

  /// Writes an unsigned LEB128 number, the varint of protobuf, in as few bytes as it needs.
  void varint(uint64_t value) {
    size_t bytes = 1;
    for (uint64_t rest = value >> 7; rest != 0; rest >>= 7) ++bytes;
    if (!make_room(bytes)) return;
    store_varint(room_.data() + used_, value, bytes);
    used_ += bytes;
  }
  /// Writes a signed number as a varint in zigzag encoding, the sint64 of protobuf.
  void zigzag64(int64_t value) { varint(static_cast<uint64_t>(value) << 1 ^ static_cast<uint64_t>(value >> 63)); }

  /// A field whose value is not known yet, such as the length of what follows. Plain data: it may be copied, and
  /// dropped without being filled. Of no bytes if the budget was used up.
  class Gap {
   public:
    size_t size() const { return bytes_; }

   private:
    friend class Appender;
    size_t offset_ = 0;  // In the buffer.
    uint32_t bytes_ = 0;
  };
  /// Leaves `bytes` zeros, to be filled later by this appender. Precondition: 0 < bytes <= 8.
  ///
  ///     const Appender::Gap length = out.gap(4);
  ///     out.text(body);
  ///     out.fill_be(length, out.bytes_after(length));
  Gap gap(size_t bytes) {
    SLUICE_CHECK(bytes > 0 && bytes <= 8);
    Gap gap;
    if (!make_room(bytes)) return gap;
    gap.offset_ = buffer_.size() + used_;
    gap.bytes_ = static_cast<uint32_t>(bytes);
    std::memset(room_.data() + used_, 0, bytes);
    used_ += bytes;
    return gap;
  }
  /// The number of bytes written after the gap so far.
  size_t bytes_after(const Gap& gap) const { return buffer_.size() + used_ - gap.offset_ - gap.bytes_; }
  /// Writes the value to the gap, in all its bytes. May be repeated. If the buffer was cloned since (after a commit()),
  /// the clone keeps the bytes that it has. If the budget does not allow the copy that this takes, ok() becomes false
  /// and the gap stays as it was. O(1) while what was written since lies in the same chunk, else O(windows before the
  /// gap). Precondition: the value fits, and nothing was removed from the front of the buffer since gap().
  void fill_be(const Gap& gap, uint64_t value) { fill(gap, value, Order::kBigEndian); }
  void fill_le(const Gap& gap, uint64_t value) { fill(gap, value, Order::kLittleEndian); }
  /// Writes a varint that is padded to the size of the gap, which all decoders of protobuf accept (in five bytes: a
  /// length). Precondition: also, the value has at most 7 bits for each byte of the gap.
  void fill_varint(const Gap& gap, uint64_t value) { fill(gap, value, Order::kVarint); }

  /// Copies bytes; counted as copied.
  void bytes(std::span<const std::byte> from) {
    while (!from.empty() && make_room(1)) {
      const size_t piece = from.size() < room_.size() - used_ ? from.size() : room_.size() - used_;
      counted_copy(room_.data() + used_, from.data(), piece);
      used_ += piece;
      from = from.subspan(piece);
    }
  }
  void text(std::string_view from) { bytes(std::as_bytes(std::span(from))); }
  /// Appends a window without copying it.
  void view(View&& from) {
    commit();
    if (ok_) buffer_.append(std::move(from));
  }

  /// Appends the bytes written so far to the buffer.
  void commit() {
    room_.truncate(std::exchange(used_, 0));
    buffer_.append(std::move(room_));
    room_ = Lease();
  }

 private:
  enum class Order : uint8_t { kBigEndian, kLittleEndian, kVarint };

  static void store_varint(std::byte* to, uint64_t value, size_t bytes) {
    for (size_t i = 0; i < bytes; ++i, value >>= 7) {
      to[i] = static_cast<std::byte>((value & 0x7f) | (i + 1 < bytes ? 0x80u : 0u));
    }
  }
  void fill(const Gap& gap, uint64_t value, Order order) {
    if (gap.bytes_ == 0) return;
    const size_t bits = gap.bytes_ * (order == Order::kVarint ? 7u : 8u);
    SLUICE_CHECK(bits >= 64 || value >> bits == 0);
    std::byte stored[8];
    if (order == Order::kVarint) store_varint(stored, value, gap.bytes_);
    for (size_t i = 0; order != Order::kVarint && i < gap.bytes_; ++i) {
      stored[order == Order::kLittleEndian ? i : gap.bytes_ - 1 - i] = static_cast<std::byte>(value >> (8 * i));
    }
    const size_t committed = buffer_.size();
    if (gap.offset_ >= committed) {
      SLUICE_CHECK(gap.offset_ - committed + gap.bytes_ <= used_);
      std::memcpy(room_.data() + (gap.offset_ - committed), stored, gap.bytes_);
    } else {
      fill_committed(gap, stored);
    }
  }
  // Not Buffer::write_at, which would count the bytes as copied.
  void fill_committed(const Gap& gap, const std::byte* stored) {
    ok_ = ok_ && buffer_.make_writable(pool_, gap.offset_, gap.bytes_);
    if (!ok_) return;
    Buffer::InOut pieces[8];
    const size_t count = buffer_.fill_in_place(gap.offset_, gap.bytes_, pieces);
    SLUICE_CHECK(count > 0);
    for (size_t i = 0; i < count; stored += pieces[i++].bytes) std::memcpy(pieces[i].out, stored, pieces[i].bytes);
  }
  template <size_t kBytes>
  void put(uint64_t value, bool little) {
    if (!make_room(kBytes)) return;
    for (size_t i = 0; i < kBytes; ++i) {
      room_.data()[used_ + (little ? i : kBytes - 1 - i)] = static_cast<std::byte>(value >> (8 * i));
    }
    used_ += kBytes;
  }
  bool make_room(size_t bytes) {
    if (room_.size() - used_ >= bytes) return true;
    commit();
    const bool as_asked = buffer_.tailroom() >= bytes || bytes > chunk_bytes_;
    if (ok_) room_ = buffer_.reserve(pool_, as_asked ? bytes : chunk_bytes_);
    ok_ = ok_ && room_;
    return ok_;
  }

  Buffer& buffer_;
  ChunkPool& pool_;
  size_t chunk_bytes_;
  Lease room_;
  size_t used_ = 0;
  bool ok_ = true;
};

}  // namespace sluice::inline v0_1
