#include "proxy/http/h1/head_scan.h"

#include <cstring>
#include <span>
#include <utility>

#include "proxy/common/token.h"

namespace sluice::http1 {

HeadScan::Result HeadScan::scan(const Buffer& in, const Limits& limits, Error& error) {
  size_t skip = scanned_;
  for (std::span<const std::byte> window : in.windows()) {
    if (skip >= window.size()) {
      skip -= window.size();
      continue;
    }
    const char* const bytes = reinterpret_cast<const char*>(window.data());
    const Result result = scan({bytes + skip, window.size() - skip}, limits, error);
    if (result != Result::kMore) return result;
    skip = 0;
  }
  return Result::kMore;
}

HeadScan::Result HeadScan::scan(std::string_view window, const Limits& limits, Error& error) {
  const auto failed = [&error](Error what) {
    error = what;
    return Result::kFailed;
  };
  const bool has_start = limits.start_line_bytes > 0;
  const auto start_is_too_long = [&](size_t bytes) {
    return has_start && !started_ && bytes > limits.start_line_bytes;
  };
  if (scanned_ == 0 && has_start && !is_token_char(window.front())) {
    return failed(malformed("a message that does not begin like HTTP"));
  }
  const char last = std::exchange(last_, window.back());
  const char* const begin = window.data();
  const char* const end = begin + window.size();
  for (const char* at = begin; at != end;) {
    const auto* const found = static_cast<const char*>(std::memchr(at, '\n', static_cast<size_t>(end - at)));
    const char* const behind = found ? found + 1 : end;
    if (found && (found > begin ? found[-1] : last) != '\r') {
      return failed(malformed("a line that does not end with CR LF"));
    }
    scanned_ += static_cast<uint32_t>(behind - at);
    at = behind;
    const uint32_t line_bytes = scanned_ - line_;
    if (start_is_too_long(found ? line_bytes - 2 : line_bytes)) {
      return failed(too_large(414, "a start line that is too long"));
    }
    if (scanned_ > limits.bytes) return failed(too_large(431, "a head that is too large"));
    if (!found) break;
    line_ = scanned_;
    if (started_ || !has_start) {
      if (line_bytes == 2) return Result::kComplete;
      if (++lines_ > limits.lines) return failed(too_large(431, "too many fields"));
    }
    started_ = true;
  }
  return Result::kMore;
}

}  // namespace sluice::http1
