#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <unordered_map>

#include "pool/chunk.h"

namespace sluice {

/// The call stacks of a sample of the chunks that are out: where each was taken. Not thread-safe: it belongs to a
/// pool's home thread.
class LeakStacks {
 public:
  /// Takes the stack of every `every`th chunk. Precondition: every > 0.
  explicit LeakStacks(uint32_t every) : every_(every), left_(every) {}

  /// A chunk is handed out / came home. `caller` is a return address on the way here, where the stack is to begin.
  /// `forget` may name any chunk.
  void note(const Chunk* chunk, const void* caller) {
    if (--left_ > 0) return;
    left_ = every_;
    capture(chunk, caller);
  }
  void forget(const Chunk* chunk) { stacks_.erase(chunk); }

  /// Writes where the sampled chunks that are out were taken: equal stacks once, most bytes first, with the names that
  /// the dynamic symbol table has (-rdynamic adds those of the program) and, for files and lines, the calls of
  /// addr2line that tell them.
  void report(std::FILE* out) const;

  /// What SLUICE_LEAK_STACKS in the environment says, read once: take every Nth stack; 0 if it is not set.
  static uint32_t every_from_environment();

 private:
  static constexpr size_t kMaxFrames = 32;
  // The return addresses, innermost first; zeros follow.
  using Stack = std::array<void*, kMaxFrames>;

  void capture(const Chunk* chunk, const void* caller);

  const uint32_t every_;
  uint32_t left_;
  std::unordered_map<const Chunk*, Stack> stacks_;
};

}  // namespace sluice
