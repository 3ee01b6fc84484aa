#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "proxy/compression/compressor.h"

namespace sluice {

/// The compressors of one worker. It keeps some idle ones, with their memory, for the next streams.
class CompressorPool {
 public:
  /// Whether one more stream may be compressed, with at most `max_streams` at once. After true, the caller must call
  /// release() when the stream ends.
  [[nodiscard]] bool reserve(uint32_t max_streams) {
    if (streams_ >= max_streams) return false;
    ++streams_;
    return true;
  }
  void release() { --streams_; }

  std::unique_ptr<Compressor> take(ContentCoding coding);
  void give(ContentCoding coding, std::unique_ptr<Compressor> compressor);

 private:
  static constexpr size_t kKept = 16;  // Of each coding. A response that arrived whole needs one only briefly.

  std::array<std::vector<std::unique_ptr<Compressor>>, kContentCodings> kept_;
  uint32_t streams_ = 0;
};

}  // namespace sluice
