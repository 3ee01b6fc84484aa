#include "proxy/http/h2/hpack_memory.h"

#include <nghttp2/nghttp2.h>

#include <cstddef>
#include <cstring>
#include <new>

#include "sluice/chunk_pool.h"

namespace sluice {
namespace {

// Precedes each allocation.
struct alignas(16) Block {
  Chunk* chunk;
  std::byte* memory() { return reinterpret_cast<std::byte*>(this) + sizeof(Block); }
  static Block* of(void* memory) {
    return std::launder(reinterpret_cast<Block*>(static_cast<std::byte*>(memory) - sizeof(Block)));
  }
};

void* allocate(size_t size, void* context) {
  static_cast<void>(context);
  const size_t bytes = sizeof(Block) + size;
  ChunkPool* pool = ChunkPool::current();
  Chunk* chunk = pool && bytes <= kMaxChunkBytes ? pool->get_metadata(bytes) : heap_chunk(bytes);
  return (new (chunk->data) Block{chunk})->memory();
}

void release(void* memory, void* context) {
  static_cast<void>(context);
  if (memory) chunk_unref(Block::of(memory)->chunk);
}

void* allocate_zeroed(size_t count, size_t size, void* context) {
  void* memory = allocate(count * size, context);
  std::memset(memory, 0, count * size);
  return memory;
}

void* reallocate(void* memory, size_t size, void* context) {
  if (!memory) return allocate(size, context);
  const size_t had = chunk_capacity(*Block::of(memory)->chunk) - sizeof(Block);
  if (size <= had) return memory;
  void* larger = allocate(size, context);
  std::memcpy(larger, memory, had);
  release(memory, context);
  return larger;
}

nghttp2_mem memory{nullptr, &allocate, &release, &allocate_zeroed, &reallocate};

}  // namespace

nghttp2_hd_deflater* new_hpack_deflater(size_t table_bytes) {
  nghttp2_hd_deflater* deflater = nullptr;
  const int result = nghttp2_hd_deflate_new2(&deflater, table_bytes, &memory);
  SLUICE_CHECK(result == 0);
  return deflater;
}

}  // namespace sluice
