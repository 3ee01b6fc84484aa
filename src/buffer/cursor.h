#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "buffer/buffer.h"

namespace sluice {

/// Reads typed values from a buffer without changing it, across window borders. A read past the end gives 0 and makes
/// `ok()` false for good, so that a parser may check once after several reads.
///
///     Cursor cursor(buffer);
///     const uint8_t type = cursor.u8();
///     const uint16_t length = (cursor.skip(2), cursor.u16be());
///     if (!cursor.ok()) return kNeedMore;
class Cursor {
 public:
  explicit Cursor(const Buffer& buffer, size_t offset = 0) : buffer_(&buffer) { skip(offset); }

  bool ok() const { return ok_; }
  size_t position() const { return position_; }
  size_t remaining() const { return buffer_->size() - position_; }

  uint8_t u8() {
    std::byte b[1];
    return read(b) ? static_cast<uint8_t>(b[0]) : uint8_t{0};
  }
  uint16_t u16be() { return static_cast<uint16_t>(big_endian<2>()); }
  uint32_t u24be() { return static_cast<uint32_t>(big_endian<3>()); }
  uint32_t u32be() { return static_cast<uint32_t>(big_endian<4>()); }
  uint64_t u64be() { return big_endian<8>(); }

  /// Reads exactly `to.size()` bytes; false (and not ok) when there are fewer.
  bool read(std::span<std::byte> to) {
    if (!ok_ || to.size() > remaining()) return ok_ = false;
    for (size_t done = 0; done < to.size();) {
      const std::span<const std::byte> window = buffer_->window(index_);
      const size_t piece = std::min(window.size() - within_, to.size() - done);
      std::copy_n(window.data() + within_, piece, to.data() + done);
      done += piece;
      advance(piece);
    }
    return true;
  }

  /// Steps over `count` bytes; false (and not ok) when there are fewer.
  bool skip(size_t count) {
    if (!ok_ || count > remaining()) return ok_ = false;
    while (count > 0) {
      const size_t piece = std::min(buffer_->window(index_).size() - within_, count);
      count -= piece;
      advance(piece);
    }
    return true;
  }

 private:
  template <size_t kBytes>
  uint64_t big_endian() {
    std::byte b[kBytes];
    if (!read(b)) return 0;
    uint64_t value = 0;
    for (std::byte part : b) value = value << 8 | static_cast<uint64_t>(part);
    return value;
  }
  void advance(size_t count) {
    position_ += count;
    within_ += count;
    if (within_ == buffer_->window(index_).size()) ++index_, within_ = 0;
  }

  const Buffer* buffer_;
  size_t index_ = 0;   // Window that the next byte lies in,
  size_t within_ = 0;  // and its place there.
  size_t position_ = 0;
  bool ok_ = true;
};

}  // namespace sluice
