#pragma once

// Sources of memory, with the same interface for each subject. None of them writes to it.

#include <cstdlib>
#include <utility>

#include "bench/iobuf/home.h"

namespace sluice::bench {

/// Chunks of a pool.
class PoolMemory {
 public:
  using Held = Chunk*;
  Held get(size_t bytes) { return home_.pool().get(bytes); }
  static void put(Held& held) { chunk_unref(held); }
  /// Takes back what was released elsewhere.
  void come_home() { home_.pool().take_remote_frees(); }

 private:
  Home home_;
};

class HeapMemory {
 public:
  using Held = void*;
  static Held get(size_t bytes) { return std::malloc(bytes); }
  static void put(Held& held) { std::free(held); }
  static void come_home() {}
};

class CordMemory {
 public:
  using Held = absl::CordBuffer;
  static Held get(size_t bytes) { return cord_memory(bytes); }
  static void put(Held& held) { held = absl::CordBuffer(); }
  static void come_home() {}
};

}  // namespace sluice::bench
