#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <unordered_map>

#include "sluice/chunk.h"

namespace sluice::inline v0_1 {

/// Records where a sample of the outstanding chunks was taken: their call stacks. Not thread-safe: it belongs to a
/// pool's home thread.
class LeakStacks {
 public:
  /// Records the stack of every `every`th chunk. Precondition: every > 0.
  explicit LeakStacks(uint32_t every) : every_(every), left_(every) {}

  /// Call `note` when a chunk is handed out and `forget` when it is returned. `caller` is a return address on the
  /// current stack; the recorded stack begins there. `forget` accepts chunks that were not sampled.
  void note(const Chunk* chunk, const void* caller) {
    if (--left_ > 0) return;
    left_ = every_;
    capture(chunk, caller);
  }
  void forget(const Chunk* chunk) { stacks_.erase(chunk); }

  /// Writes where the outstanding sampled chunks were taken. Equal stacks are merged and sorted by bytes, largest
  /// first. Names come from the dynamic symbol table (-rdynamic adds those of the program). For files and lines it
  /// prints the addr2line commands to run.
  void report(std::FILE* out) const;

  /// The sampling interval from SLUICE_LEAK_STACKS in the environment, read once; 0 if it is not set.
  static uint32_t every_from_environment();

 private:
  static constexpr size_t kMaxFrames = 32;
  // Return addresses, innermost first, padded with zeros.
  using Stack = std::array<void*, kMaxFrames>;

  void capture(const Chunk* chunk, const void* caller);

  const uint32_t every_;
  uint32_t left_;
  std::unordered_map<const Chunk*, Stack> stacks_;
};

}  // namespace sluice::inline v0_1
