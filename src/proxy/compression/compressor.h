#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "buffer/buffer.h"
#include "pool/chunk_pool.h"
#include "proxy/compression/content_coding.h"

namespace sluice {

/// Compresses streams of bytes, one after the other, without sockets: bytes in, bytes out. Its memory is that of one
/// stream, is taken with the first, and stays for the next.
///
///     auto compressor = make_compressor(ContentCoding::kGzip);
///     compressor->begin(5);
///     compressor->compress(pool, std::move(body), Compressor::Then::kEnd, out);
class Compressor {
 public:
  /// What is to come out behind the input: as much as is worth while, all that has come in, or that and the end.
  enum class Then : uint8_t { kMore, kFlush, kEnd };

  virtual ~Compressor() = default;

  /// Begins a stream; what there was of another is forgotten. `level`: 1 (fast) to 9 (small), for all codings.
  /// False when there is no memory.
  [[nodiscard]] virtual bool begin(uint32_t level) = 0;

  /// Appends to `out` what comes out of `input`, in chunks of `pool`, beyond its budget if need be: it is about as much
  /// as `input` gives back. False when there is no memory: the stream is lost.
  [[nodiscard]] bool compress(ChunkPool& pool, Buffer&& input, Then then, Buffer& out);

  /// Bytes that it holds.
  virtual size_t memory_bytes() const = 0;

 protected:
  /// Where a step reads and writes; it moves both along.
  struct Step {
    std::span<const std::byte> in;
    std::span<std::byte> out;
  };
  enum class Result : uint8_t { kDone, kNeedsRoom, kFailed };
  /// Takes all of step.in and does what `then` says, as far as there is room.
  virtual Result run(Step& step, Then then) = 0;

 private:
  bool compress_window(ChunkPool& pool, std::span<const std::byte> window, Then then, Buffer& out);
};

/// What a stream of each coding takes at most, at any level: kept small by bounding the windows. Measured by
/// test/proxy/compression/compressor_test.cc.
inline constexpr size_t kGzipMemoryBytes = size_t{272} * 1024;
inline constexpr size_t kBrotliMemoryBytes = size_t{3} * 1024 * 1024;
inline constexpr size_t kZstdMemoryBytes = size_t{1280} * 1024;

std::unique_ptr<Compressor> make_gzip_compressor();
std::unique_ptr<Compressor> make_brotli_compressor();
std::unique_ptr<Compressor> make_zstd_compressor();
/// One of these. Precondition: coding != ContentCoding::kIdentity.
std::unique_ptr<Compressor> make_compressor(ContentCoding coding);

}  // namespace sluice
