// Formats the lines of the access log and of the run-time log.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

namespace sluice {

/// Whether spaces in a text are escaped or kept.
enum class Spaces : uint8_t { kEscaped, kKept };

/// The maximum sizes of the parts of a line, after escaping.
struct LineLimits {
  static constexpr size_t kPath = 4096;
  static constexpr size_t kUserAgent = 1024;  ///< Also for any other header field.
  static constexpr size_t kAuthority = 512;
  static constexpr size_t kName = 160;   ///< Addresses, configured names, ids. Unix socket paths have at most 108.
  static constexpr size_t kWord = 32;    ///< Values that mostly come from a small set.
  static constexpr size_t kNumber = 20;  ///< Digits of a 64-bit number.
  static constexpr size_t kTime = sizeof("02/Jan/2026:03:04:05 +0000") - 1;
};

/// Appends to a line at a raw pointer. It does not check bounds: the caller provides room for the maximum sizes of
/// everything that it writes.
class LineWriter {
 public:
  explicit LineWriter(char* at) : at_(at) {}
  char* end() const { return at_; }

  void raw(std::string_view text) {
    std::memcpy(at_, text.data(), text.size());
    at_ += text.size();
  }
  /// As raw(), of a string literal: its size is a constant.
  template <size_t kSize>
  [[gnu::always_inline]] void literal(const char (&text)[kSize]) {
    std::memcpy(at_, text, kSize - 1);
    at_ += kSize - 1;
  }
  /// The same of an array.
  template <const auto kText>
  [[gnu::always_inline]] void constant() {
    std::memcpy(at_, kText.data(), kText.size());
    at_ += kText.size();
  }
  void number(uint64_t value) {
    if (value < 10) {  // Many are 0 or 1.
      *at_++ = static_cast<char>('0' + value);
    } else if (value < 10'000) {
      const auto small = static_cast<uint32_t>(value);
      if (small >= 1000) {
        two_digits(small / 100);
      } else if (small >= 100) {
        *at_++ = static_cast<char>('0' + small / 100);
      }
      two_digits(small % 100);
    } else {
      long_number(value);
    }
  }
  /// Appends a text. Bytes that are not visible ASCII, quotes, and backslashes are written as `\xNN`; an empty text is
  /// written as `-`. Takes at most `max` bytes, which must be 4 or more; a longer text is cut and ends with `...`.
  template <Spaces kSpaces = Spaces::kEscaped>
  void text(std::string_view text, size_t max);
  /// Appends the contents of a JSON string, without its quotes: UTF-8, with U+FFFD for each invalid byte. Takes at most
  /// `max` bytes, which must be 6 or more; a longer text is cut as in text().
  void json_text(std::string_view text, size_t max);
  /// Appends a time, in milliseconds since 1970, in UTC: `2026-01-02T03:04:05.678Z`
  void time(int64_t ms);
  /// Appends a time in the Common Log Format: `02/Jan/2026:03:04:05 +0000`
  void clf_time(int64_t ms);

 private:
  /// Of the numbers from 0 to 99.
  static constexpr auto kTwoDigits = [] {
    std::array<char, 200> digits{};
    for (size_t i = 0; i < 100; ++i) {
      digits[2 * i] = static_cast<char>('0' + i / 10);
      digits[2 * i + 1] = static_cast<char>('0' + i % 10);
    }
    return digits;
  }();

  void two_digits(uint32_t value) {
    std::memcpy(at_, kTwoDigits.data() + size_t{2} * value, 2);
    at_ += 2;
  }
  void long_number(uint64_t value);

  char* at_;
};

}  // namespace sluice
