#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

namespace sluice {

/// Packs values into one string, each preceded by its size. The access log uses it for the header fields of a response,
/// which is gone by the time the line is written.
///
///     std::array<char, 2 * KeptValues::kMaxValue> room;
///     size_t size = KeptValues::put("text/html", room.data());
///     KeptValues values({room.data(), size});
///     values.take();   // "text/html"
class KeptValues {
 public:
  /// A longer value is cut.
  static constexpr size_t kMaxText = 512, kMaxValue = kMaxText + sizeof(uint16_t);

  /// Writes one value to `to`, which has room for kMaxValue bytes. Returns the number of bytes written.
  static size_t put(std::string_view value, char* to) {
    const auto size = static_cast<uint16_t>(std::min(value.size(), kMaxText));
    std::memcpy(to, &size, sizeof size);
    value.copy(to + sizeof size, size);
    return sizeof size + size;
  }

  KeptValues() = default;
  explicit KeptValues(std::string_view all) : rest_(all) {}

  /// Removes and returns the next value; empty if there are no more.
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
