#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "net/yielding_task.h"
#include "proxy/compression/compressor.h"
#include "proxy/compression/compressor_pool.h"
#include "proxy/http/message/fields.h"
#include "sluice/buffer.h"
#include "sluice/internal/check.h"

namespace sluice {

/// The state of an exchange whose response is compressed. Each piece is a yielding task: one piece per turn of the
/// worker's loop, so that other work never waits longer than for one piece.
struct ResponseCompression {
  static constexpr size_t kPieceBytes = size_t{16} * 1024;

  ResponseCompression(CompressorPool& compressors, ContentCoding content_coding, YieldingTask::Run run, void* context)
      : pool(compressors), coding(content_coding), work(run, context) {}
  ~ResponseCompression() {
    if (compressor) pool.give(coding, std::move(compressor));
    pool.release();
  }
  ResponseCompression(const ResponseCompression&) = delete;
  ResponseCompression& operator=(const ResponseCompression&) = delete;

  /// Like Compressor::compress. The first call takes a compressor from the pool. As everywhere else, running out of
  /// memory is fatal.
  void compress(ChunkPool& chunks, Buffer&& piece, Compressor::Then then, uint32_t level, Buffer& out) {
    if (!compressor) {
      compressor = pool.take(coding);
      SLUICE_CHECK(compressor->begin(level));
    }
    SLUICE_CHECK(compressor->compress(chunks, std::move(piece), then, out));
  }

  CompressorPool& pool;
  ContentCoding coding;
  bool ended = false;      ///< Nothing follows `waiting` but the trailers.
  bool unflushed = false;  ///< The compressor holds output back.
  YieldingTask work;
  std::unique_ptr<Compressor> compressor;  ///< Set from the first piece on.
  Buffer waiting;                          ///< Body that is not compressed yet.
  Fields trailers;
};

}  // namespace sluice
