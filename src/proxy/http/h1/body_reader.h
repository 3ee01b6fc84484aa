#pragma once

#include <cstddef>
#include <cstdint>

#include "buffer/buffer.h"
#include "proxy/http/h1/error.h"
#include "proxy/http/h1/head_reader.h"

namespace sluice::http1 {

/// Takes a message's body out of what was received. Bytes are moved, not copied, but for chunks of a few bytes behind
/// others, where a window each would cost more.
class BodyReader {
 public:
  enum class Result : uint8_t {
    kMore,      ///< All that was there is taken, but the beginning of a chunk's header.
    kEnd,       ///< The body is complete.
    kTrailers,  ///< The same, and a trailer section follows: at least its empty line.
    kFailed,
  };

  void begin(Framing framing, uint64_t length) {
    framing_ = framing;
    left_ = framing == Framing::kLength ? length : 0;
    phase_ = Phase::kSize;
  }
  Framing framing() const { return framing_; }
  /// Of kLength: how much is still to come.
  uint64_t left() const { return left_; }

  /// Moves what `in` has of the body to the end of `body`. `error` is set with kFailed.
  Result read(ChunkPool& pool, Buffer& in, Buffer& body, size_t max_extension_bytes, Error& error);

 private:
  enum class Phase : uint8_t { kSize, kData, kDataEnd };
  Result read_chunks(ChunkPool& pool, Buffer& in, Buffer& body, size_t max_extension_bytes, Error& error);
  void take(ChunkPool& pool, Buffer& in, Buffer& body);

  uint64_t left_ = 0;  // Of the body, or the chunk.
  Framing framing_ = Framing::kNone;
  Phase phase_ = Phase::kSize;
};

}  // namespace sluice::http1
