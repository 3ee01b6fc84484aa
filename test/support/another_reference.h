// A second reference to a chunk, which programs get through views only.
#pragma once

#include "sluice/chunk_pool.h"

namespace sluice::test {

inline ChunkRef another_reference(const ChunkRef& chunk) {
  chunk_ref(chunk.get());
  return ChunkRef::take(chunk.get());
}

}  // namespace sluice::test
