#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <utility>

#include "sluice/buffer.h"
#include "sluice/copied.h"

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

  /// Copies bytes; counted as copied.
  void bytes(std::span<const std::byte> from) {
    while (!from.empty() && make_room(1)) {
      const size_t piece = std::min(from.size(), room_.size() - used_);
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
    if (ok_) room_ = buffer_.reserve(pool_, buffer_.tailroom() >= bytes ? bytes : chunk_bytes_);
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
