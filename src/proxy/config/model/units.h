// Durations, sizes and counts as a user writes them: `250ms`, `64KiB`, `512`.
//
// Parsers consume the whole text (no blanks around it, no sign). On error they return InvalidArgument, which names what
// was expected and, if it can be guessed, what to write instead. Printers return the shortest exact form, which the
// parser reads back.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace sluice::config {

inline constexpr uint64_t kKiB = uint64_t{1} << 10;
inline constexpr uint64_t kMiB = uint64_t{1} << 20;
inline constexpr uint64_t kGiB = uint64_t{1} << 30;

/// A span of time, never negative, in milliseconds: the resolution of the timers.
using Duration = std::chrono::milliseconds;

/// `duration` as a plain number, in the unit of Worker::now_ms.
constexpr uint64_t milliseconds(Duration duration) { return static_cast<uint64_t>(duration.count()); }

/// The longest duration that a file may contain. A year is "forever" for a connection, and far from any overflow.
inline constexpr Duration kMaxDuration = std::chrono::hours(24 * 365);

/// A number of bytes.
struct Size {
  uint64_t bytes = 0;

  auto operator<=>(const Size&) const = default;
};

/// `250ms`, `5s`, `1m`, `2h`: a whole number and its unit, up to kMaxDuration. The only bare number is 0.
absl::StatusOr<Duration> parse_duration(std::string_view text);
std::string print_duration(Duration duration);

/// `64KiB`, `4MiB`, `1GiB` (powers of 1024), `64KB`, `4MB`, `1GB` (powers of 1000), or a bare number of bytes.
absl::StatusOr<Size> parse_size(std::string_view text);
std::string print_size(Size size);

/// A whole number in decimal, below 2^32.
absl::StatusOr<uint32_t> parse_count(std::string_view text);

}  // namespace sluice::config
