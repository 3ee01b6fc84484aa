// A section of field lines must be read as llhttp reads it.

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "proxy/http/h1/head_scan.h"
#include "sluice/chunk_pool.h"
#include "test/support/buffers.h"
#include "test/support/reference_fields.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace sluice;
  static ChunkPool pool({.budget_bytes = size_t{64} << 20});
  ChunkPool::Use use(&pool);
  std::string_view bytes(reinterpret_cast<const char*>(data), size);
  http1::HeadScan scan;
  http1::Error error;
  if (scan.scan(test::heap_buffer_of(bytes), {0, 16384, 100}, error) != http1::HeadScan::Result::kComplete) return 0;
  bytes = bytes.substr(0, scan.bytes());
  const test::ReadFields ours = test::read_by_field_line(bytes), reference = test::read_by_llhttp(bytes);
  SLUICE_CHECK(ours == reference || (reference.refused && test::llhttp_interprets(ours)));
  return 0;
}
