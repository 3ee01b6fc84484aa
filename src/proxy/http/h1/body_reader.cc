#include "proxy/http/h1/body_reader.h"

#include <algorithm>
#include <span>
#include <utility>

#include "sluice/cursor.h"

namespace sluice::http1 {

namespace {

constexpr size_t kMaxSizeDigits = 16;
constexpr size_t kTinyBytes = 32;

int hex_digit(uint8_t c) {
  if (c >= '0' && c <= '9') return c - '0';
  const int letter = c | 0x20;
  return letter >= 'a' && letter <= 'f' ? letter - 'a' + 10 : -1;
}

// Parses `size [;extension] CR LF` at the beginning of `in` and returns its length. Returns 0 if it is incomplete, or
// if it is malformed: then `error` is set.
size_t read_chunk_header(const Buffer& in, size_t max_extension_bytes, uint64_t& size, Error& error) {
  enum { kDigits, kExtension, kLineFeed } state = kDigits;
  size_t bytes = 0, digits = 0, extension = 0;
  size = 0;
  for (std::span<const std::byte> window : in.windows()) {
    for (const std::byte byte : window) {
      const auto c = static_cast<uint8_t>(byte);
      ++bytes;
      if (state == kLineFeed) {
        if (c == '\n') return bytes;
        error = malformed("a chunk's header that does not end with CR LF");
        return 0;
      }
      if (c == '\r' && digits > 0) {
        state = kLineFeed;
      } else if (state == kExtension) {
        if ((c < ' ' && c != '\t') || c == 0x7f) {
          error = malformed("a chunk extension with invalid characters");
          return 0;
        }
        if (++extension > max_extension_bytes) {
          error = too_large(400, "a chunk extension that is too long");
          return 0;
        }
      } else if (const int digit = hex_digit(c); digit >= 0) {
        size = size << 4 | static_cast<uint64_t>(digit);
        if (++digits > kMaxSizeDigits || size > uint64_t{INT64_MAX}) {
          error = malformed("a chunk size that is too large");
          return 0;
        }
      } else if (c == ';' && digits > 0) {
        state = kExtension;
      } else {
        error = malformed("a malformed chunk size");
        return 0;
      }
    }
  }
  return 0;
}

}  // namespace

BodyReader::Result BodyReader::read(ChunkPool& pool, Buffer& in, Buffer& body, size_t max_extension_bytes,
                                    Error& error) {
  switch (framing_) {
    case Framing::kNone:
      return Result::kEnd;
    case Framing::kLength:
      take(pool, in, body);
      return left_ == 0 ? Result::kEnd : Result::kMore;
    case Framing::kUntilEnd:
      body.append(std::move(in));
      return Result::kMore;
    case Framing::kChunked:
      break;
  }
  return read_chunks(pool, in, body, max_extension_bytes, error);
}

BodyReader::Result BodyReader::read_chunks(ChunkPool& pool, Buffer& in, Buffer& body, size_t max_extension_bytes,
                                           Error& error) {
  while (!in.empty()) {
    if (phase_ == Phase::kSize) {
      const size_t header = read_chunk_header(in, max_extension_bytes, left_, error);
      if (header == 0) return error ? Result::kFailed : Result::kMore;
      in.trim_front(header);
      if (left_ == 0) return Result::kTrailers;
      phase_ = Phase::kData;
    } else if (phase_ == Phase::kData) {
      take(pool, in, body);
      if (left_ == 0) phase_ = Phase::kDataEnd;
    } else {
      Cursor cursor(in);
      if (cursor.u8() != '\r' || (in.size() > 1 && cursor.u8() != '\n')) {
        error = malformed("a chunk that does not end with CR LF");
        return Result::kFailed;
      }
      if (in.size() == 1) return Result::kMore;
      in.trim_front(2);
      phase_ = Phase::kSize;
    }
  }
  return Result::kMore;
}

void BodyReader::take(ChunkPool& pool, Buffer& in, Buffer& body) {
  const size_t bytes = static_cast<size_t>(std::min<uint64_t>(left_, in.size()));
  left_ -= bytes;
  // A tiny chunk on its own would pin its whole receive buffer, unless it is all that the buffer holds.
  if (bytes > 0 && bytes <= kTinyBytes && (!body.empty() || in.size() > bytes + kTinyBytes) &&
      bytes <= in.window(0).size() && body.append_copy(pool, in.window(0).first(bytes))) {
    in.trim_front(bytes);
  } else {
    body.append(in.split_front(bytes));
  }
}

}  // namespace sluice::http1
