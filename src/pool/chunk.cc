#include "sluice/chunk.h"

#include <cstdlib>
#include <new>

#include "sluice/internal/check.h"

namespace sluice::inline v0_1 {

namespace {

struct ExternalChunk : Chunk {
  ReleaseFunction release;
  void* context;
};

}  // namespace

void free_unpooled_chunk(Chunk* chunk) {
  if (chunk->kind == ChunkKind::kHeap) {
    chunk->~Chunk();
    std::free(chunk);
    return;
  }
  ExternalChunk* external = static_cast<ExternalChunk*>(chunk);
  if (external->release) external->release(external->context, external->data, external->capacity);
  delete external;
}

Chunk* heap_chunk(size_t bytes) {
  Chunk* chunk = try_heap_chunk(bytes);
  SLUICE_CHECK(chunk != nullptr);
  return chunk;
}

Chunk* try_heap_chunk(size_t bytes) {
  SLUICE_CHECK(bytes < size_t{1} << 31);
  void* memory = std::malloc(sizeof(Chunk) + bytes);
  if (memory == nullptr) return nullptr;
  Chunk* chunk = new (memory) Chunk{};
  chunk->data = static_cast<std::byte*>(memory) + sizeof(Chunk);
  chunk->home = nullptr;
  chunk->capacity = bytes;
  chunk->kind = ChunkKind::kHeap;
  chunk->refs.store(1, std::memory_order_relaxed);
  return chunk;
}

Chunk* external_chunk(std::byte* data, size_t bytes, ChunkKind kind, ReleaseFunction release, void* context) {
  SLUICE_CHECK(bytes < size_t{1} << 31 && (kind == ChunkKind::kExternal || kind == ChunkKind::kReadOnly));
  ExternalChunk* chunk = new (std::nothrow) ExternalChunk{};
  SLUICE_CHECK(chunk != nullptr);  // As in heap_chunk.
  chunk->data = data;
  chunk->home = nullptr;
  chunk->capacity = bytes;
  chunk->kind = kind;
  chunk->release = release;
  chunk->context = context;
  chunk->refs.store(1, std::memory_order_relaxed);
  return chunk;
}

}  // namespace sluice::inline v0_1
