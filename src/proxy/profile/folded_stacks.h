#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/function_ref.h"
#include "proxy/profile/sample_ring.h"

namespace sluice {

/// Sums samples by thread and call stack, and writes them in the form that flamegraph.pl reads: a line for each stack,
/// `thread;outer;inner SUM`. Holds at most kMaxStacks different ones; samples of further ones count as lost.
class FoldedStacks {
 public:
  static constexpr size_t kMaxStacks = 20'000;

  /// Adds a sample: return addresses, innermost first.
  void add(std::string_view thread, std::span<const uintptr_t> frames, uint64_t weight);
  /// Takes what is in a ring.
  void add_all(std::string_view thread, SampleRing& ring);
  void add_lost(uint64_t samples) { lost_ += samples; }

  uint64_t samples() const { return samples_; }
  uint64_t lost() const { return lost_; }

  /// The lines, in the order of their text. Each sum is multiplied by `scale` and rounded. If samples are lost, the
  /// last line is `[lost samples]` with their number, not multiplied.
  std::string text(double scale, absl::FunctionRef<std::string_view(uintptr_t address)> name_of) const;

 private:
  std::map<std::string, absl::flat_hash_map<std::vector<uintptr_t>, uint64_t>, std::less<>> threads_;
  size_t stacks_ = 0;
  uint64_t samples_ = 0;
  uint64_t lost_ = 0;
};

}  // namespace sluice
