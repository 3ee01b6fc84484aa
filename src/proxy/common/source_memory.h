#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "proxy/common/connection_limits.h"

namespace sluice {

/// What the connections of each source hold together, by the last review of a listener's connections on one worker.
///
/// A count-min sketch (Cormode and Muthukrishnan, 2005): its size does not depend on the number of sources, and it
/// never reports less than a source holds. It reports more where two sources meet in both rows.
class SourceMemory {
 public:
  /// Counts `bytes` for the round of reviews that is under way.
  void add(const Source& source, size_t bytes);
  /// Begins a round: held() reports what the one before has counted.
  void begin_round();
  /// Bytes, rounded down to 1 KiB for each connection; 0 before the second round.
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
