#pragma once

#include <cstdint>
#include <string_view>

namespace sluice {

/// How urgent a response is, and whether parts of it are useful before the whole (RFC 9218 section 4). Without any
/// priority signal, streams take turns as if incremental.
struct Http2Priority {
  static constexpr uint8_t kLevels = 8;
  uint8_t urgency : 4 = 3;
  bool incremental : 1 = true;
  bool told : 1 = false;

  /// Parses the value of a Priority field. Parameters that it omits get the defaults of RFC 9218. An empty value
  /// changes nothing.
  void parse(std::string_view value);
};

}  // namespace sluice
