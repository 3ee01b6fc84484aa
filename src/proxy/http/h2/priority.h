#pragma once

#include <cstdint>
#include <string_view>

namespace sluice {

/// How urgent a response is, and whether parts of it are of use already (RFC 9218 section 4). Where nobody said
/// anything, streams take turns as if incremental.
struct Http2Priority {
  static constexpr uint8_t kLevels = 8;
  uint8_t urgency : 4 = 3;
  bool incremental : 1 = true;
  bool told : 1 = false;

  /// Reads the value of a Priority field; what it does not say is as RFC 9218 has it, and what is no such value changes
  /// nothing.
  void parse(std::string_view value);
};

}  // namespace sluice
