#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <utility>

#include "sluice/buffer.h"
#include "sluice/internal/check.h"

namespace sluice::inline v0_1 {

/// Reads typed values from a buffer across window boundaries without changing it. A read past the end returns 0 and
/// makes `ok()` false for good, so a parser may check once after several reads. `error()` tells bytes that have not
/// arrived from bytes that no further ones can mend. The buffer must not change while the cursor is in use.
///
///     Cursor cursor(buffer);
///     const uint8_t type = cursor.u8();
///     const uint16_t length = (cursor.skip(2), cursor.u16be());
///     if (!cursor.ok()) return kNeedMore;
class Cursor {
 public:
  static constexpr size_t npos = Buffer::npos;

  /// Why ok() is false.
  enum class Error : uint8_t {
    kNone,
    kEnd,        ///< The buffer ended within a value.
    kMalformed,  ///< A varint was too long or too large.
  };

  explicit Cursor(const Buffer& buffer, size_t offset = 0) : size_(buffer.size()), at_(buffer.windows().begin()) {
    if (size_ > 0) enter_window();
    if (offset > 0) skip(offset);
  }

  bool ok() const { return error_ == Error::kNone; }
  /// The first error. The position is then that of the value that could not be read.
  Error error() const { return error_; }
  size_t position() const { return position_of_stop_ - static_cast<size_t>(stop_ - now_); }
  size_t remaining() const { return size_ - position(); }

  uint8_t u8() { return static_cast<uint8_t>(big_endian<1>()); }
  uint16_t u16be() { return static_cast<uint16_t>(big_endian<2>()); }
  uint32_t u24be() { return static_cast<uint32_t>(big_endian<3>()); }
  uint32_t u32be() { return static_cast<uint32_t>(big_endian<4>()); }
  uint64_t u64be() { return big_endian<8>(); }
  uint16_t u16le() { return static_cast<uint16_t>(little_endian<2>()); }
  uint32_t u24le() { return static_cast<uint32_t>(little_endian<3>()); }
  uint32_t u32le() { return static_cast<uint32_t>(little_endian<4>()); }
  uint64_t u64le() { return little_endian<8>(); }

  /// Reads an unsigned LEB128 number, the varint of protobuf: 7 bits a byte, the least significant first. Accepts at
  /// most 5 or 10 bytes, with leading zeros or without, and fails with Error::kMalformed if there are more or the value
  /// does not fit. (Protobuf sends a negative int32 as a varint64.)
  uint32_t varint32() { return static_cast<uint32_t>(varint(32)); }
  uint64_t varint64() { return varint(64); }
  /// Reads a varint64 in zigzag encoding, the sint64 of protobuf: 0, -1, 1, -2 are sent as 0, 1, 2, 3.
  int64_t zigzag64() {
    const uint64_t value = varint(64);
    return static_cast<int64_t>(value >> 1 ^ (~(value & 1) + 1));
  }

  /// Returns the bytes of the current window from the position on, in place. Empty only at the end or if !ok().
  std::span<const std::byte> peek() const {
    if (now_ != stop_) return {now_, stop_};
    if (!ok() || remaining() == 0) return {};
    return *at_;
  }
  /// Returns the next `count` bytes as one span without moving on: in place if one window holds them, else copied into
  /// `scratch`. Empty, with ok() as it was, if fewer are left. Precondition: count <= scratch.size().
  std::span<const std::byte> peek(size_t count, std::span<std::byte> scratch) const {
    SLUICE_CHECK(count <= scratch.size());
    if (static_cast<size_t>(stop_ - now_) >= count) return {now_, count};
    Cursor ahead = *this;
    if (ahead.ok() && ahead.now_ == ahead.stop_ && ahead.remaining() > 0) ahead.enter_window();
    if (static_cast<size_t>(ahead.stop_ - ahead.now_) >= count) return {ahead.now_, count};
    return ahead.read(scratch.first(count)) ? scratch.first(count) : std::span<std::byte>();
  }
  /// Returns the number of bytes before the first `delimiter` from the position on, without moving on, or npos if the
  /// next `limit` bytes do not have it.
  ///
  ///     const size_t bytes = cursor.bytes_before(std::byte{'\n'}, 8192);
  size_t bytes_before(std::byte delimiter, size_t limit = npos) const {
    Cursor ahead = *this;
    size_t before = 0;
    for (std::span<const std::byte> piece = peek(); !piece.empty() && before < limit; piece = ahead.peek()) {
      if (piece.size() > limit - before) piece = piece.first(limit - before);
      if (const void* found = std::memchr(piece.data(), static_cast<int>(delimiter), piece.size())) {
        return before + static_cast<size_t>(static_cast<const std::byte*>(found) - piece.data());
      }
      before += piece.size();
      ahead.skip(piece.size());
    }
    return npos;
  }

  /// Reads exactly `to.size()` bytes. False, with ok() false, if fewer are left. Meant for protocol fields, so the
  /// bytes are not counted as copied; take payload with Buffer's functions.
  bool read(std::span<std::byte> to) {
    if (!ok() || to.size() > remaining()) return fail(Error::kEnd);
    for (size_t done = 0; done < to.size();) {
      if (now_ == stop_) enter_window();
      const size_t piece = left_in_window(to.size() - done);
      std::memcpy(to.data() + done, now_, piece);
      done += piece;
      now_ += piece;
    }
    return true;
  }

  /// Skips `count` bytes. False, with ok() false, if fewer are left.
  bool skip(size_t count) {
    if (!ok() || count > remaining()) return fail(Error::kEnd);
    while (count > 0) {
      if (now_ == stop_) enter_window();
      const size_t piece = left_in_window(count);
      count -= piece;
      now_ += piece;
    }
    return true;
  }

 private:
  template <size_t kBytes>
  uint64_t big_endian() {
    std::byte across[kBytes];
    const std::byte* b = take<kBytes>(across);
    return b ? value_of(b, std::make_index_sequence<kBytes>(), [](size_t i) { return kBytes - 1 - i; }) : 0;
  }
  template <size_t kBytes>
  uint64_t little_endian() {
    std::byte across[kBytes];
    const std::byte* b = take<kBytes>(across);
    return b ? value_of(b, std::make_index_sequence<kBytes>(), [](size_t i) { return i; }) : 0;
  }
  // Written without a loop so that compilers emit one load. `place(i)` is the number of bytes less significant than
  // byte i.
  template <size_t... kAt>
  static uint64_t value_of(const std::byte* b, std::index_sequence<kAt...>, auto place) {
    return ((static_cast<uint64_t>(b[kAt]) << 8 * place(kAt)) | ...);
  }
  // Returns the next bytes: in place, or copied to `across` if they span several windows. Null, with ok() false, if
  // fewer are left.
  template <size_t kBytes>
  const std::byte* take(std::byte (&across)[kBytes]) {
    if (static_cast<size_t>(stop_ - now_) < kBytes) [[unlikely]]
      return take_beyond_window(across, kBytes);
    const std::byte* taken = now_;
    now_ += kBytes;
    return taken;
  }
  const std::byte* take_beyond_window(std::byte* across, size_t bytes) {
    if (!ok() || remaining() < bytes) {
      fail(Error::kEnd);
      return nullptr;
    }
    if (now_ == stop_) enter_window();
    if (static_cast<size_t>(stop_ - now_) >= bytes) {
      const std::byte* taken = now_;
      now_ += bytes;
      return taken;
    }
    read({across, bytes});
    return across;
  }
  uint64_t varint(size_t bits) {
    if (now_ != stop_ && *now_ < std::byte{0x80}) [[likely]]
      return static_cast<uint64_t>(*now_++);
    Cursor ahead = *this;
    uint64_t value = 0;
    for (size_t shift = 0; shift < bits; shift += 7) {
      const uint64_t byte = ahead.u8();
      if (!ahead.ok()) return fail(Error::kEnd);
      const uint64_t group = byte & 0x7f;
      if (bits - shift < 7 && group >> (bits - shift) != 0) return fail(Error::kMalformed);
      value |= group << shift;
      if (byte < 0x80) {
        *this = ahead;
        return value;
      }
    }
    return fail(Error::kMalformed);
  }
  // Drops the rest of the window, so that the fast path fails without a check of the error.
  bool fail(Error error) {
    position_of_stop_ = position();
    stop_ = now_;
    if (ok()) error_ = error;
    return false;
  }
  // At most `most`.
  size_t left_in_window(size_t most) const {
    const size_t left = static_cast<size_t>(stop_ - now_);
    return left < most ? left : most;
  }
  void enter_window() {
    const std::span<const std::byte> window = *at_;
    ++at_;
    now_ = window.data();
    stop_ = now_ + window.size();
    position_of_stop_ += window.size();
  }

  size_t size_;
  Buffer::Windows::Iterator at_;     // The window after the current one.
  const std::byte* now_ = nullptr;   // Next byte of the current window.
  const std::byte* stop_ = nullptr;  // End of the current window.
  size_t position_of_stop_ = 0;
  Error error_ = Error::kNone;
};

}  // namespace sluice::inline v0_1
