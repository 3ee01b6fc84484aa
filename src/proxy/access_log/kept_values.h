#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

namespace sluice {

/// Values in a row, each behind its size, so that all of them are one text: what a line of the access log says of a
/// response, which is gone when the line is written.
///
///     std::array<char, 2 * KeptValues::kMaxValue> room;
///     size_t size = KeptValues::put("text/html", room.data());
///     KeptValues values({room.data(), size});
///     values.take();   // "text/html"
class KeptValues {
 public:
  /// A longer value is cut.
  static constexpr size_t kMaxText = 512, kMaxValue = kMaxText + sizeof(uint16_t);

  /// Writes one value to `to`, where there is room for kMaxValue; returns what it takes.
  static size_t put(std::string_view value, char* to) {
    const auto size = static_cast<uint16_t>(std::min(value.size(), kMaxText));
    std::memcpy(to, &size, sizeof size);
    value.copy(to + sizeof size, size);
    return sizeof size + size;
  }

  KeptValues() = default;
  explicit KeptValues(std::string_view all) : rest_(all) {}

  /// The next one; empty when there are no more.
  std::string_view take() {
    uint16_t size = 0;
    if (rest_.size() < sizeof size) return {};
    std::memcpy(&size, rest_.data(), sizeof size);
    const std::string_view value = rest_.substr(sizeof size, size);
    rest_.remove_prefix(sizeof size + value.size());
    return value;
  }

 private:
  std::string_view rest_;
};

}  // namespace sluice
