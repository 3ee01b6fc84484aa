#pragma once

#include <cstddef>
#include <cstring>
#include <memory>
#include <new>
#include <utility>

#include "sluice/chunk_pool.h"

namespace sluice::inline v0_1 {

/// Destroys an object that make_in_chunk created and releases its chunk.
template <class T>
struct ChunkDeleter {
  static constexpr size_t kFrontBytes = 16;  ///< Space in front of the object for the pointer to its chunk.

  void operator()(T* object) const {
    Chunk* chunk;
    std::memcpy(&chunk, reinterpret_cast<std::byte*>(object) - kFrontBytes, sizeof(chunk));
    object->~T();
    chunk_unref(chunk);
  }
};

/// The sole owner of an object that lives in a chunk.
template <class T>
using ChunkPointer = std::unique_ptr<T, ChunkDeleter<T>>;

/// Creates an object in a chunk of `pool`, beyond the budget if necessary. Meant for state that many connections need
/// for a limited time: on the heap it would leave holes between long-lived objects, and no page would ever become free.
template <class T, class... Args>
ChunkPointer<T> make_in_chunk(ChunkPool& pool, Args&&... args) {
  constexpr size_t kFront = ChunkDeleter<T>::kFrontBytes;
  static_assert(alignof(T) <= kFront && kFront + sizeof(T) <= kMaxChunkBytes);
  Chunk* const chunk = pool.get_metadata(kFront + sizeof(T));
  std::memcpy(chunk->data, &chunk, sizeof(chunk));
  return ChunkPointer<T>(new (chunk->data + kFront) T{std::forward<Args>(args)...});
}

}  // namespace sluice::inline v0_1
