#pragma once

#include <cstddef>
#include <cstring>
#include <memory>
#include <new>
#include <utility>

#include "pool/chunk_pool.h"

namespace sluice {

/// Destroys an object that make_in_chunk made, and gives its chunk back.
template <class T>
struct ChunkDeleter {
  static constexpr size_t kFrontBytes = 16;  ///< In front of the object: the chunk that both lie in.

  void operator()(T* object) const {
    Chunk* chunk;
    std::memcpy(&chunk, reinterpret_cast<std::byte*>(object) - kFrontBytes, sizeof(chunk));
    object->~T();
    chunk_unref(chunk);
  }
};

/// The one owner of an object that lies in a chunk.
template <class T>
using ChunkPointer = std::unique_ptr<T, ChunkDeleter<T>>;

/// Makes an object in a chunk of `pool`, beyond its budget if need be. For what each of many connections needs for a
/// while only: on the heap it would leave holes between what stays, so that no page would ever be free.
template <class T, class... Args>
ChunkPointer<T> make_in_chunk(ChunkPool& pool, Args&&... args) {
  constexpr size_t kFront = ChunkDeleter<T>::kFrontBytes;
  static_assert(alignof(T) <= kFront && kFront + sizeof(T) <= kMaxChunkBytes);
  Chunk* const chunk = pool.get_metadata(kFront + sizeof(T));
  std::memcpy(chunk->data, &chunk, sizeof(chunk));
  return ChunkPointer<T>(new (chunk->data + kFront) T{std::forward<Args>(args)...});
}

}  // namespace sluice
