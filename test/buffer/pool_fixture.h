// A pool that is current during a test, and to which every chunk must have returned at its end.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sluice/buffer.h"
#include "sluice/copied.h"
#include "test/support/buffers.h"

namespace sluice::test {

class PoolTest : public testing::Test {
 protected:
  explicit PoolTest(size_t budget_bytes = size_t{8} << 20) : pool_({.budget_bytes = budget_bytes}), use_(&pool_) {}

  void TearDown() override {
    pool_.take_remote_frees();
    EXPECT_EQ(pool_.leaked(), 0u) << "chunks did not come home";
  }

  /// A lease on `text` at the start of a fresh chunk, with room for at least `tailroom` more bytes.
  Lease lease_of(std::string_view text, size_t tailroom = 0) {
    return filled(Lease::allocate(pool_, text.size() + tailroom), text);
  }
  View view_of(std::string_view text) { return lease_of(text).freeze(); }
  Buffer buffer_of(std::string_view text, size_t tailroom = 0) {
    Buffer buffer;
    buffer.append(lease_of(text, tailroom));
    return buffer;
  }
  /// Each text is a window in a chunk of its own.
  Buffer in_windows(const std::vector<std::string>& texts) {
    Buffer buffer;
    for (const std::string& text : texts) buffer.append(lease_of(text));
    return buffer;
  }
  bool append_copy(Buffer& buffer, std::string_view text) {
    return buffer.append_copy(pool_, std::as_bytes(std::span(text)));
  }
  /// Bytes counted as copied since the test began.
  uint64_t copied() const { return copied_bytes - copied_before_; }

  ChunkPool pool_;
  ChunkPool::Use use_;

 private:
  const uint64_t copied_before_ = copied_bytes;
};

inline std::string text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}
inline std::string text_of(const View& view) { return text_of(view.bytes()); }
inline std::string text_of(const Lease& lease) { return text_of(lease.bytes()); }

/// The windows' texts: {"GET", " /"}.
inline std::vector<std::string> windows_of(const Buffer& buffer) {
  std::vector<std::string> texts;
  texts.reserve(buffer.window_count());
  for (std::span<const std::byte> window : buffer.windows()) texts.push_back(text_of(window));
  return texts;
}

/// Overwrites all of window `index` with `letter`. False, and nothing written, if it is read-only.
inline bool overwrite(Buffer& buffer, size_t index, char letter) {
  const std::span<std::byte> window = buffer.writable_window(index);
  for (std::byte& byte : window) byte = static_cast<std::byte>(letter);
  return !window.empty();
}

}  // namespace sluice::test
