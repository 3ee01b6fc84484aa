#pragma once

#include <cstddef>

struct nghttp2_hd_deflater;

namespace sluice {

// Creates libnghttp2's encoder with its memory in chunks of the current pool, beyond the budget if need be. Tables are
// created and refilled often, and pool statistics should show the memory that they take. Never returns null.

nghttp2_hd_deflater* new_hpack_deflater(size_t table_bytes);

}  // namespace sluice
