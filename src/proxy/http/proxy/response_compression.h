#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "buffer/buffer.h"
#include "net/yielding_task.h"
#include "pool/check.h"
#include "proxy/compression/compressor.h"
#include "proxy/compression/compressor_pool.h"
#include "proxy/http/message/fields.h"

namespace sluice {

/// What an exchange has while its response is compressed. Each piece is work that waits for its turn among what is
/// slow: one piece a turn of the worker's loop, so that others never wait for more.
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

  /// As Compressor::compress; the first takes a compressor. That there is no memory is as fatal as anywhere else.
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
  bool unflushed = false;  ///< The compressor holds something back.
  YieldingTask work;
  std::unique_ptr<Compressor> compressor;  ///< From the first piece on.
  Buffer waiting;                          ///< Body that is yet to be compressed.
  Fields trailers;
};

}  // namespace sluice
