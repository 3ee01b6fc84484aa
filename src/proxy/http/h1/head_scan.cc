#include "proxy/http/h1/head_scan.h"

#include <cstring>
#include <span>

#include "proxy/common/token.h"

namespace sluice::http1 {

HeadScan::Result HeadScan::scan(const Buffer& in, const Limits& limits, Error& error) {
  const auto failed = [&error](Error what) {
    error = what;
    return Result::kFailed;
  };
  const bool has_start = limits.start_line_bytes > 0;
  const auto check_line = [&](size_t line_bytes) {
    if (has_start && !started_ && line_bytes > limits.start_line_bytes) {
      error = too_large(414, "a start line that is too long");
    }
    return !error;
  };

  size_t skip = scanned_;
  for (std::span<const std::byte> window : in.windows()) {
    if (skip >= window.size()) {
      skip -= window.size();
      continue;
    }
    window = window.subspan(skip);
    skip = 0;
    while (!window.empty()) {
      const char* const from = reinterpret_cast<const char*>(window.data());
      if (scanned_ == 0 && has_start && !is_token_char(*from))
        return failed(malformed("a message that does not begin like HTTP"));
      const void* const found = std::memchr(from, '\n', window.size());
      if (!found) {
        last_ = from[window.size() - 1];
        scanned_ += static_cast<uint32_t>(window.size());
        if (!check_line(scanned_ - line_)) return Result::kFailed;
        if (scanned_ > limits.bytes) return failed(too_large(431, "a head that is too large"));
        break;
      }
      const size_t before = static_cast<size_t>(static_cast<const char*>(found) - from);
      if ((before > 0 ? from[before - 1] : last_) != '\r')
        return failed(malformed("a line that does not end with CR LF"));
      last_ = '\n';
      scanned_ += static_cast<uint32_t>(before + 1);
      window = window.subspan(before + 1);
      const size_t line_bytes = scanned_ - line_;
      if (!check_line(line_bytes - 2)) return Result::kFailed;
      if (scanned_ > limits.bytes) return failed(too_large(431, "a head that is too large"));
      line_ = scanned_;
      if (line_bytes == 2 && (started_ || !has_start)) return Result::kComplete;
      if (!has_start || started_) {
        if (++lines_ > limits.lines) return failed(too_large(431, "too many fields"));
      }
      started_ = true;
    }
  }
  return Result::kMore;
}

}  // namespace sluice::http1
