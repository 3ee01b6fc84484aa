#include "proxy/config/model/units.h"

#include <charconv>
#include <limits>
#include <optional>
#include <span>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "proxy/common/suggestions.h"

namespace sluice::config {
namespace {

struct Unit {
  std::string_view name;
  uint64_t factor;
};

// Largest first: the printers use the first unit that divides the value.
constexpr Unit kTimeUnits[] = {{"h", 3'600'000}, {"m", 60'000}, {"s", 1000}, {"ms", 1}};
constexpr Unit kByteUnits[] = {{"GiB", kGiB},         {"MiB", kMiB},     {"KiB", kKiB},
                               {"GB", 1'000'000'000}, {"MB", 1'000'000}, {"KB", 1000}};
constexpr size_t kBinaryByteUnits = 3;

constexpr std::string_view kDurationExpected = "a duration such as 250ms, 5s, 1m or 2h";
constexpr std::string_view kSizeExpected = "a size such as 64KiB, 4MiB or 1GiB";
constexpr std::string_view kCountExpected = "a whole number";

struct Quantity {
  uint64_t number;
  std::string_view unit;
};

// Splits "64KiB" into 64 and "KiB". Returns nullopt if it does not begin with digits, or the number exceeds 64 bits.
std::optional<Quantity> split(std::string_view text) {
  Quantity quantity{};
  const char* end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, quantity.number);
  if (error != std::errc{}) return std::nullopt;
  quantity.unit = std::string_view(rest, static_cast<size_t>(end - rest));
  return quantity;
}

absl::Status unexpected(std::string_view expected, std::string_view text, std::string_view hint = "") {
  return absl::InvalidArgumentError(absl::StrCat("expected ", expected, ", got ", in_quotes(text), hint));
}

std::optional<uint64_t> factor_of(std::span<const Unit> units, std::string_view name) {
  for (const Unit& unit : units) {
    if (unit.name == name) return unit.factor;
  }
  return std::nullopt;
}

std::string print_quantity(uint64_t value, std::span<const Unit> units) {
  for (const Unit& unit : units) {
    if (value != 0 && value % unit.factor == 0) return absl::StrCat(value / unit.factor, unit.name);
  }
  return absl::StrCat(value);
}

}  // namespace

absl::StatusOr<Duration> parse_duration(std::string_view text) {
  const std::optional<Quantity> quantity = split(text);
  if (!quantity) return unexpected(kDurationExpected, text);
  if (quantity->unit.empty()) {
    if (quantity->number == 0) return Duration{0};
    return unexpected(kDurationExpected, text, absl::StrCat("; add its unit, as in ", text, "s"));
  }
  const std::optional<uint64_t> factor_ms = factor_of(kTimeUnits, quantity->unit);
  if (!factor_ms) return unexpected(kDurationExpected, text, "; the units are ms, s, m and h, after a whole number");
  if (quantity->number > static_cast<uint64_t>(kMaxDuration.count()) / *factor_ms) {
    return unexpected(kDurationExpected, text, absl::StrCat("; the most is ", print_duration(kMaxDuration)));
  }
  return Duration{static_cast<int64_t>(quantity->number * *factor_ms)};
}

std::string print_duration(Duration duration) {
  return print_quantity(static_cast<uint64_t>(duration.count()), kTimeUnits);
}

absl::StatusOr<Size> parse_size(std::string_view text) {
  const std::optional<Quantity> quantity = split(text);
  if (!quantity) return unexpected(kSizeExpected, text);
  if (quantity->unit.empty()) return Size{quantity->number};
  const std::optional<uint64_t> factor = factor_of(kByteUnits, quantity->unit);
  if (!factor) {
    return unexpected(kSizeExpected, text, "; the units are KiB, MiB, GiB, KB, MB and GB, after a whole number");
  }
  if (quantity->number > std::numeric_limits<uint64_t>::max() / *factor) {
    return unexpected(kSizeExpected, text, "; that is more than 64 bits hold");
  }
  return Size{quantity->number * *factor};
}

std::string print_size(Size size) { return print_quantity(size.bytes, std::span(kByteUnits).first(kBinaryByteUnits)); }

absl::StatusOr<uint32_t> parse_count(std::string_view text) {
  const std::optional<Quantity> quantity = split(text);
  if (!quantity || !quantity->unit.empty()) return unexpected(kCountExpected, text);
  if (quantity->number > std::numeric_limits<uint32_t>::max()) {
    return unexpected(kCountExpected, text, absl::StrCat("; the most is ", std::numeric_limits<uint32_t>::max()));
  }
  return static_cast<uint32_t>(quantity->number);
}

}  // namespace sluice::config
