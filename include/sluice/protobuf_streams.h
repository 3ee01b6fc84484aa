#pragma once

// Streams of protobuf over buffers. This header is for programs that use protobuf (3.12 or newer) and includes its
// headers; nothing else in the library does, and nothing of the library is linked with it.

#include <google/protobuf/io/zero_copy_stream.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

#include "sluice/buffer.h"
#include "sluice/internal/check.h"

namespace sluice::inline v0_1 {

/// Gives protobuf a buffer's windows to parse in place. Does not change the buffer, which must live and not change
/// while the stream is in use: call Buffer::trim_front(ByteCount()) afterwards to drop what was read.
///
///     BufferInputStream in(body);
///     if (!message.ParseFromZeroCopyStream(&in)) return kMalformed;
class BufferInputStream final : public google::protobuf::io::ZeroCopyInputStream {
 public:
  /// Begins at `offset`. Precondition: offset <= buffer.size().
  explicit BufferInputStream(const Buffer& buffer, size_t offset = 0)
      : at_(buffer.windows().begin()), end_(buffer.windows().end()) {
    SLUICE_CHECK(offset <= buffer.size());
    pass(offset);
  }

  bool Next(const void** data, int* size) override {
    if (left_.empty() && !enter_window()) return false;
    *data = left_.data();
    *size = static_cast<int>(left_.size());  // A window has less than 2 GiB.
    last_ = left_;
    count_ += static_cast<int64_t>(left_.size());
    left_ = {};
    return true;
  }
  void BackUp(int count) override {
    SLUICE_CHECK(count >= 0 && static_cast<size_t>(count) <= last_.size());
    left_ = last_.last(static_cast<size_t>(count));
    last_ = {};
    count_ -= count;
  }
  bool Skip(int count) override {
    last_ = {};
    const size_t passed = count > 0 ? pass(static_cast<size_t>(count)) : 0;
    count_ += static_cast<int64_t>(passed);
    return count <= 0 || passed == static_cast<size_t>(count);
  }
  /// The bytes read since the stream was made, without those before `offset`.
  int64_t ByteCount() const override { return count_; }

 private:
  bool enter_window() {
    if (at_ == end_) return false;
    left_ = *at_;
    ++at_;
    return true;
  }
  // Passes over up to `count` bytes and returns how many there were.
  size_t pass(size_t count) {
    size_t passed = 0;
    while (passed < count && (!left_.empty() || enter_window())) {
      const size_t piece = std::min(left_.size(), count - passed);
      left_ = left_.subspan(piece);
      passed += piece;
    }
    return passed;
  }

  Buffer::Windows::Iterator at_, end_;  // The window after the current one.
  std::span<const std::byte> left_;     // What Next has not given of the current window.
  std::span<const std::byte> last_;     // What it gave last, for BackUp.
  int64_t count_ = 0;
};

/// Lets protobuf serialize into chunks at the end of a buffer, without a copy. The buffer receives the bytes at flush()
/// or when the stream is destroyed, and must not be used before that. If the pool's budget is used up, serializing
/// fails, and the buffer keeps what was written before: take it back with truncate. A message has at most 2 GiB.
///
///     {
///       BufferOutputStream out(body, pool);
///       if (!message.SerializeToZeroCopyStream(&out)) return wait_for_memory();
///     }
class BufferOutputStream final : public google::protobuf::io::ZeroCopyOutputStream {
 public:
  /// Takes chunks of at least `chunk_bytes` where the buffer has no tailroom. The buffer and the pool must outlive the
  /// stream. Precondition: 0 < chunk_bytes <= kMaxChunkBytes.
  BufferOutputStream(Buffer& buffer, ChunkPool& pool, size_t chunk_bytes = 4096)
      : buffer_(buffer), pool_(pool), chunk_bytes_(chunk_bytes) {
    SLUICE_CHECK(chunk_bytes > 0 && chunk_bytes <= kMaxChunkBytes);
  }
  ~BufferOutputStream() override { flush(); }
  BufferOutputStream(const BufferOutputStream&) = delete;
  BufferOutputStream& operator=(const BufferOutputStream&) = delete;

  bool Next(void** data, int* size) override {
    flush();
    room_ = buffer_.reserve(pool_, buffer_.tailroom() > 0 ? 1 : chunk_bytes_);
    if (!room_) return false;
    *data = room_.data();
    *size = static_cast<int>(room_.size());
    count_ += static_cast<int64_t>(room_.size());
    return true;
  }
  void BackUp(int count) override {
    SLUICE_CHECK(count >= 0 && static_cast<size_t>(count) <= room_.size());
    room_.truncate(room_.size() - static_cast<size_t>(count));
    count_ -= count;
  }
  /// The bytes written since the stream was made.
  int64_t ByteCount() const override { return count_; }

  /// Appends the bytes written so far to the buffer. Call it when nothing writes: what Next gave last counts as
  /// written, apart from what BackUp took back.
  void flush() {
    buffer_.append(std::move(room_));
    room_ = Lease();
  }

 private:
  Buffer& buffer_;
  ChunkPool& pool_;
  size_t chunk_bytes_;
  Lease room_;  // What Next gave last.
  int64_t count_ = 0;
};

}  // namespace sluice::inline v0_1
