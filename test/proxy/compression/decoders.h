// Decodes a compressed body like a client, by the libraries' own decoders.
#pragma once

#include <brotli/decode.h>
#include <gtest/gtest.h>
#include <zlib.h>
#include <zstd.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "proxy/compression/content_coding.h"

namespace sluice::test {

/// The decoded bytes so far, and whether the stream was complete.
struct Decoded {
  std::string text;
  bool ended = false;
};

inline Decoded decode_gzip(std::string_view bytes) {
  Decoded decoded;
  z_stream stream{};
  EXPECT_EQ(inflateInit2(&stream, 15 + 16), Z_OK);
  stream.next_in = const_cast<Bytef*>(reinterpret_cast<const Bytef*>(bytes.data()));
  stream.avail_in = static_cast<uInt>(bytes.size());
  std::vector<char> room(1 << 16);
  int result = Z_OK;
  do {
    stream.next_out = reinterpret_cast<Bytef*>(room.data());
    stream.avail_out = static_cast<uInt>(room.size());
    result = inflate(&stream, Z_SYNC_FLUSH);
    decoded.text.append(room.data(), room.size() - stream.avail_out);
  } while (result == Z_OK && (stream.avail_in > 0 || stream.avail_out == 0));
  EXPECT_TRUE(result == Z_OK || result == Z_STREAM_END || result == Z_BUF_ERROR) << result;
  decoded.ended = result == Z_STREAM_END;
  EXPECT_TRUE(!decoded.ended || stream.avail_in == 0) << "more behind the end";
  inflateEnd(&stream);
  return decoded;
}

inline Decoded decode_brotli(std::string_view bytes) {
  Decoded decoded;
  BrotliDecoderState* const decoder = BrotliDecoderCreateInstance(nullptr, nullptr, nullptr);
  size_t in_bytes = bytes.size();
  const auto* in = reinterpret_cast<const uint8_t*>(bytes.data());
  std::vector<uint8_t> room(1 << 16);
  BrotliDecoderResult result = BROTLI_DECODER_RESULT_NEEDS_MORE_OUTPUT;
  while (result == BROTLI_DECODER_RESULT_NEEDS_MORE_OUTPUT) {
    uint8_t* out = room.data();
    size_t out_bytes = room.size();
    result = BrotliDecoderDecompressStream(decoder, &in_bytes, &in, &out_bytes, &out, nullptr);
    decoded.text.append(reinterpret_cast<const char*>(room.data()), room.size() - out_bytes);
  }
  EXPECT_NE(result, BROTLI_DECODER_RESULT_ERROR);
  EXPECT_EQ(in_bytes, 0U);
  decoded.ended = result == BROTLI_DECODER_RESULT_SUCCESS;
  BrotliDecoderDestroyInstance(decoder);
  return decoded;
}

inline Decoded decode_zstd(std::string_view bytes) {
  Decoded decoded;
  ZSTD_DCtx* const decoder = ZSTD_createDCtx();
  ZSTD_inBuffer in{bytes.data(), bytes.size(), 0};
  std::vector<char> room(1 << 16);
  size_t left = 1;
  for (bool full = true; full || in.pos < in.size;) {
    ZSTD_outBuffer out{room.data(), room.size(), 0};
    left = ZSTD_decompressStream(decoder, &out, &in);
    EXPECT_FALSE(ZSTD_isError(left)) << ZSTD_getErrorName(left);
    if (ZSTD_isError(left)) break;
    decoded.text.append(room.data(), out.pos);
    full = out.pos == out.size;
    if (left == 0) break;
  }
  decoded.ended = left == 0;
  EXPECT_TRUE(!decoded.ended || in.pos == in.size) << "more behind the end";
  ZSTD_freeDCtx(decoder);
  return decoded;
}

inline Decoded decode(ContentCoding coding, std::string_view bytes) {
  switch (coding) {
    case ContentCoding::kGzip:
      return decode_gzip(bytes);
    case ContentCoding::kBrotli:
      return decode_brotli(bytes);
    case ContentCoding::kZstd:
      return decode_zstd(bytes);
    case ContentCoding::kIdentity:
      break;
  }
  return {std::string(bytes), false};
}

}  // namespace sluice::test
