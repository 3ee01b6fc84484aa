#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

#include "sluice/buffer.h"

namespace sluice::inline v0_1 {

/// Reads typed values from a buffer across window boundaries without changing it. A read past the end returns 0 and
/// makes `ok()` false for good, so a parser may check once after several reads. The buffer must not change while the
/// cursor is in use.
///
///     Cursor cursor(buffer);
///     const uint8_t type = cursor.u8();
///     const uint16_t length = (cursor.skip(2), cursor.u16be());
///     if (!cursor.ok()) return kNeedMore;
class Cursor {
 public:
  explicit Cursor(const Buffer& buffer, size_t offset = 0) : size_(buffer.size()), at_(buffer.windows().begin()) {
    if (size_ > 0) enter_window();
    if (offset > 0) skip(offset);
  }

  bool ok() const { return ok_; }
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

  /// Reads exactly `to.size()` bytes. False, with ok() false, if fewer are left. Meant for protocol fields, so the
  /// bytes are not counted as copied; take payload with Buffer's functions.
  bool read(std::span<std::byte> to) {
    if (!ok_ || to.size() > remaining()) return fail();
    for (size_t done = 0; done < to.size();) {
      if (now_ == stop_) enter_window();
      const size_t piece = std::min(static_cast<size_t>(stop_ - now_), to.size() - done);
      std::copy_n(now_, piece, to.data() + done);
      done += piece;
      now_ += piece;
    }
    return true;
  }

  /// Skips `count` bytes. False, with ok() false, if fewer are left.
  bool skip(size_t count) {
    if (!ok_ || count > remaining()) return fail();
    while (count > 0) {
      if (now_ == stop_) enter_window();
      const size_t piece = std::min(static_cast<size_t>(stop_ - now_), count);
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
    if (!ok_ || remaining() < bytes) {
      fail();
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
  // Drops the rest of the window, so that the fast path fails without a check of ok_.
  bool fail() {
    position_of_stop_ = position();
    stop_ = now_;
    return ok_ = false;
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
  bool ok_ = true;
};

}  // namespace sluice::inline v0_1
