// The library's report about a leaked chunk. One request in three forgets its buffer; the report at the end names the
// place:
//
//   build/release/examples/leak
//   build/release/examples/leak 100       # in a program that cannot afford a stack per chunk: of every 100th
//
// Names of a program's own functions need -rdynamic (ENABLE_EXPORTS in CMake); files and lines need addr2line, whose
// command the report contains, and -g. In other programs SLUICE_LEAK_STACKS=1 in the environment does the same.

#include <cstdint>
#include <cstdlib>
#include <cstring>

#include <sluice/chunk_pool.h>
#include <sluice/lease.h>

// Not in an anonymous namespace, and not inlined: otherwise the dynamic symbol table would not contain them.
namespace example {

[[gnu::noinline]] sluice::Chunk* read_request(sluice::ChunkPool& pool) {
  sluice::ChunkRef chunk = sluice::ChunkRef::take(pool.get(1500));
  std::memset(chunk.data(), 0, chunk.capacity());
  return chunk.release();  // The caller must call chunk_unref.
}

[[gnu::noinline]] void answer_well(sluice::ChunkPool& pool) { sluice::chunk_unref(read_request(pool)); }

[[gnu::noinline]] size_t answer_and_forget(sluice::ChunkPool& pool) {
  const sluice::Chunk* request = read_request(pool);
  return sluice::chunk_capacity(*request);
}

}  // namespace example

int main(int argc, char** argv) {
  const auto every = static_cast<uint32_t>(argc > 1 ? std::strtoul(argv[1], nullptr, 10) : 1);
  sluice::ChunkPool pool({.budget_bytes = 64 << 20, .stack_every = every});
  sluice::ChunkPool::Use use(&pool);
  size_t answered = 0;
  for (int i = 0; i < 1000; ++i) {
    example::answer_well(pool);
    example::answer_well(pool);
    answered += example::answer_and_forget(pool);
  }
  return answered > 0 ? 0 : 1;
}
