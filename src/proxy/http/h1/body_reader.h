#pragma once

#include <cstddef>
#include <cstdint>

#include "proxy/http/h1/error.h"
#include "proxy/http/h1/head_reader.h"
#include "sluice/buffer.h"

namespace sluice::http1 {

/// Extracts a message's body from the received bytes. It moves bytes rather than copying them, except for a chunk of a
/// few bytes beside other data: there a window of its own would cost more than the copy, and pin more.
class BodyReader {
 public:
  enum class Result : uint8_t {
    kMore,      ///< All available input is consumed, except for an incomplete chunk header.
    kEnd,       ///< The body is complete.
    kTrailers,  ///< The body is complete and a trailer section follows, with at least its empty line.
    kFailed,
  };

  void begin(Framing framing, uint64_t length) {
    framing_ = framing;
    left_ = framing == Framing::kLength ? length : 0;
    phase_ = Phase::kSize;
  }
  Framing framing() const { return framing_; }
  /// With kLength: the number of bytes of the body still to come.
  uint64_t left() const { return left_; }

  /// Moves the part of the body that `in` holds to the end of `body`. Sets `error` when it returns kFailed.
  Result read(ChunkPool& pool, Buffer& in, Buffer& body, size_t max_extension_bytes, Error& error);

 private:
  enum class Phase : uint8_t { kSize, kData, kDataEnd };
  Result read_chunks(ChunkPool& pool, Buffer& in, Buffer& body, size_t max_extension_bytes, Error& error);
  void take(ChunkPool& pool, Buffer& in, Buffer& body);

  uint64_t left_ = 0;  // Bytes left of the body, or of the current chunk.
  Framing framing_ = Framing::kNone;
  Phase phase_ = Phase::kSize;
};

}  // namespace sluice::http1
