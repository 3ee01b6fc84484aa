#include <sluice/buffer.h>
#include <sluice/version.h>

#include <cstdio>

int main() {
  sluice::ChunkPool pool({.budget_bytes = 1 << 20});
  sluice::ChunkPool::Use use(&pool);
  sluice::Buffer buffer;
  if (!buffer.append_copy(pool, "hello")) return 1;
  std::printf("sluice %s: %s\n", SLUICE_VERSION_STRING, buffer.to_string().c_str());
}
