// Defect: chunk_ref of a sole holder read the count without acquire and overwrote it with a plain store. That store
// ended the release sequence of another holder's decrement, so that nobody afterwards synchronized with its last
// accesses. Found by ThreadSanitizer only, and only in the accesses of the thread that adds the reference.

#include <gtest/gtest.h>

#include <atomic>
#include <cstddef>
#include <thread>

#include "sluice/chunk.h"

namespace sluice {
namespace {

TEST(ReferenceAfterRelease, SeesTheFormerHoldersAccesses) {
  for (int round = 0; round < 100; ++round) {
    Chunk* const chunk = heap_chunk(64);
    chunk->data[0] = std::byte{1};
    chunk_ref(chunk);
    std::thread other([chunk] {
      EXPECT_EQ(chunk->data[0], std::byte{1});
      chunk_unref(chunk);
    });
    // Without acquire, so that only chunk_ref can synchronize.
    while (chunk->refs.load(std::memory_order_relaxed) != 1) std::this_thread::yield();
    chunk_ref(chunk);
    chunk->data[0] = std::byte{2};  // Both references are of this thread.
    chunk_unref(chunk);
    chunk_unref(chunk);
    other.join();
  }
}

}  // namespace
}  // namespace sluice
