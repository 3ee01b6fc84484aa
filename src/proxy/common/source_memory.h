#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "proxy/common/connection_limits.h"

namespace sluice {

/// Estimates the bytes that the connections of each source hold together, as counted by the last complete round of
/// reviews of a listener's connections on one worker.
///
/// A count-min sketch (Cormode and Muthukrishnan, 2005): its size does not depend on the number of sources, and it
/// never underestimates. It overestimates for a source that collides with others in both rows.
class SourceMemory {
 public:
  /// Adds `bytes` to a source in the current round of reviews.
  void add(const Source& source, size_t bytes);
  /// Begins a round. held() then reports the counts of the previous one.
  void begin_round();
  /// The estimate for a source in bytes. The contribution of each add() is rounded down to 1 KiB. 0 before the second
  /// round.
  size_t held(const Source& source) const;

 private:
  static constexpr size_t kRows = 2;
  static constexpr size_t kColumns = 2048;
  using Sums = std::array<std::array<uint32_t, kColumns>, kRows>;  // KiB.
  using Columns = std::array<size_t, kRows>;
  static Columns columns(const Source& source);

  Sums counting_{};
  Sums last_{};
};

}  // namespace sluice
