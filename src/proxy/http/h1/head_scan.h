#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "proxy/http/h1/error.h"
#include "sluice/buffer.h"

namespace sluice::http1 {

/// Finds the end of a head or trailer section incrementally, looking at each byte once. It refuses a section that is
/// too large or has a line with a wrong ending before the section is complete.
class HeadScan {
 public:
  struct Limits {
    size_t start_line_bytes;  ///< 0: no start line, as in trailers.
    size_t bytes;
    size_t lines;  ///< Field lines, without the start line and the final empty line.
  };
  enum class Result : uint8_t { kMore, kComplete, kFailed };

  /// `in` begins with the head, and holds at least the bytes of the previous call. Sets `error` when it returns
  /// kFailed.
  Result scan(const Buffer& in, const Limits& limits, Error& error);
  /// The size of the complete head, including its final empty line.
  size_t bytes() const { return scanned_; }
  size_t lines() const { return lines_; }
  void reset() { *this = HeadScan(); }

 private:
  // The next bytes, at least one.
  Result scan(std::string_view window, const Limits& limits, Error& error);

  uint32_t scanned_ = 0;
  uint32_t line_ = 0;     // Where the current, incomplete line begins.
  uint16_t lines_ = 0;    // Counted as in Limits.
  bool started_ = false;  // The start line is complete.
  char last_ = '\0';      // The last byte of the last window.
};

}  // namespace sluice::http1
