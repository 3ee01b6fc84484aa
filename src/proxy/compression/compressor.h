#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "proxy/compression/content_coding.h"
#include "sluice/buffer.h"
#include "sluice/chunk_pool.h"

namespace sluice {

/// Compresses streams of bytes, one after the other, without sockets. It holds the memory for one stream, which it
/// allocates with the first stream and keeps for the next.
///
///     auto compressor = make_compressor(ContentCoding::kGzip);
///     compressor->begin(5);
///     compressor->compress(pool, std::move(body), Compressor::Then::kEnd, out);
class Compressor {
 public:
  /// What to produce after the input: only what is worthwhile (kMore), all input so far (kFlush), or all input and the
  /// end of the stream (kEnd).
  enum class Then : uint8_t { kMore, kFlush, kEnd };

  virtual ~Compressor() = default;

  /// Begins a stream, and discards any unfinished one. `level` runs from 1 (fast) to 9 (small) for all codings. Returns
  /// false if memory is exhausted.
  [[nodiscard]] virtual bool begin(uint32_t level) = 0;

  /// Compresses `input` and appends the output to `out`. The chunks come from `pool`, beyond its budget if need be:
  /// they take about as much as `input` gives back. Returns false if memory is exhausted; the stream is lost then.
  [[nodiscard]] bool compress(ChunkPool& pool, Buffer&& input, Then then, Buffer& out);

  /// Memory that it holds.
  virtual size_t memory_bytes() const = 0;

 protected:
  /// The input and output of one step. run() advances both.
  struct Step {
    std::span<const std::byte> in;
    std::span<std::byte> out;
  };
  enum class Result : uint8_t { kDone, kNeedsRoom, kFailed };
  /// Consumes all of step.in and produces the output for `then`, as far as there is room.
  virtual Result run(Step& step, Then then) = 0;

 private:
  bool compress_window(ChunkPool& pool, std::span<const std::byte> window, Then then, Buffer& out);
};

/// The most memory that a stream of each coding takes, at any level. Limited window sizes keep it small. Measured by
/// test/proxy/compression/compressor_test.cc.
inline constexpr size_t kGzipMemoryBytes = size_t{272} * 1024;
inline constexpr size_t kBrotliMemoryBytes = size_t{3} * 1024 * 1024;
inline constexpr size_t kZstdMemoryBytes = size_t{1280} * 1024;

std::unique_ptr<Compressor> make_gzip_compressor();
std::unique_ptr<Compressor> make_brotli_compressor();
std::unique_ptr<Compressor> make_zstd_compressor();
/// Makes one of the above. Precondition: coding != ContentCoding::kIdentity.
std::unique_ptr<Compressor> make_compressor(ContentCoding coding);

}  // namespace sluice
