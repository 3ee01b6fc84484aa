#pragma once

#include <cstddef>
#include <cstdint>

#include "buffer/buffer.h"
#include "proxy/http/h1/error.h"

namespace sluice::http1 {

/// Looks for the end of a head or of a trailer section as its bytes come in, each of them once, and refuses what is too
/// large or has lines that do not end as they should before it is complete.
class HeadScan {
 public:
  struct Limits {
    size_t start_line_bytes;  ///< 0: there is none, as in trailers.
    size_t bytes;
    size_t lines;  ///< Without the start line and the last, empty one.
  };
  enum class Result : uint8_t { kMore, kComplete, kFailed };

  /// `in` begins with the head; each call is given the bytes of the one before and more. `error` is set with kFailed.
  Result scan(const Buffer& in, const Limits& limits, Error& error);
  /// Of the complete head, with its last line.
  size_t bytes() const { return scanned_; }
  size_t lines() const { return lines_; }
  void reset() { *this = HeadScan(); }

 private:
  uint32_t scanned_ = 0;
  uint32_t line_ = 0;     // Where the line begins that is not complete yet.
  uint16_t lines_ = 0;    // As Limits counts them.
  bool started_ = false;  // The start line was seen.
  char last_ = '\0';      // The last byte that was scanned.
};

}  // namespace sluice::http1
