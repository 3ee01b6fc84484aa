#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "proxy/cli/metrics_text.h"

namespace sluice {

/// What the admin listener has responded at one time.
struct TopFigures {
  struct Address {
    std::string upstream;
    std::string address;
    std::string state;
    std::string reason;
    std::string active;
  };

  /// Reads the responses of /metrics, /upstreams and /memory.
  TopFigures(std::string_view metrics, std::string_view upstreams_page, std::string_view memory_page,
             double its_time_s);

  MetricsText metrics;
  std::vector<Address> addresses;  ///< Those that are not up first.
  std::string addresses_error;     ///< Why some are not there; else empty.
  double budget_bytes = 0;         ///< Of all workers; 0 if it is not known.
  double time_s;                   ///< When they were read, since 1970.
};

/// A line of the screen. It has printable ASCII only: texts of the process cannot control the terminal.
struct TopLine {
  enum class Style : uint8_t { kPlain, kHead, kBad };

  std::string text;
  Style style = Style::kPlain;
};

/// What stands below the screen.
inline constexpr std::string_view kTopFoot = "q: end";

/// The screen of `sluice top`. Rates are those from `before` to `now`. At most `rows` lines of at most `columns`
/// characters; what is left of the rows is for endpoints. `error`: why `now` is not current, on the first line; else
/// empty.
std::vector<TopLine> top_screen(const TopFigures& before, const TopFigures& now, std::string_view error, size_t rows,
                                size_t columns);

}  // namespace sluice
