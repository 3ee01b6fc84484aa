// How a line of the access log is put together, in whichever format.
#pragma once

#include <charconv>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

namespace sluice {

/// In which texts a space stays what it is.
enum class Spaces : uint8_t { kEscaped, kKept };

/// What a text takes at most, escaped.
struct LineLimits {
  static constexpr size_t kPath = 4096;
  static constexpr size_t kUserAgent = 1024;  ///< And any other header field.
  static constexpr size_t kAuthority = 512;
  static constexpr size_t kName = 160;   ///< Addresses, configured names, ids. 108 bytes is the longest path of a Unix
                                         ///< socket.
  static constexpr size_t kWord = 32;    ///< What comes from a small set, mostly.
  static constexpr size_t kNumber = 20;  ///< Of 64 bits.
  static constexpr size_t kTime = sizeof("02/Jan/2026:03:04:05 +0000") - 1;
};

/// Where the next bytes of a line go. Nobody counts the room as it goes: who writes a line knows what it takes at most.
class LineWriter {
 public:
  explicit LineWriter(char* at) : at_(at) {}
  char* end() const { return at_; }

  void raw(std::string_view text) {
    std::memcpy(at_, text.data(), text.size());
    at_ += text.size();
  }
  void number(uint64_t value) { at_ = std::to_chars(at_, at_ + LineLimits::kNumber, value).ptr; }
  /// With `\xNN` for what is no visible character of ASCII, for quotes and backslashes; `-` where it is empty. At most
  /// `max` bytes, which are 4 or more: what does not fit is replaced by `...`.
  template <Spaces kSpaces = Spaces::kEscaped>
  void text(std::string_view text, size_t max);
  /// As the text of a JSON string, without its quotes: UTF-8, with U+FFFD for each byte that is none. At most `max`
  /// bytes, as above, but 6 or more.
  void json_text(std::string_view text, size_t max);
  /// In UTC: `2026-01-02T03:04:05.678Z`
  void time(int64_t ms);
  /// As it is usual in other servers' logs: `02/Jan/2026:03:04:05 +0000`
  void clf_time(int64_t ms);

 private:
  char* at_;
};

}  // namespace sluice
