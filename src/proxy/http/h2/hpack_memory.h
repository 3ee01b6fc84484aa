#pragma once

#include <cstddef>

struct nghttp2_hd_deflater;
struct nghttp2_hd_inflater;

namespace sluice {

// libnghttp2's coders with their memory in chunks of the current pool, beyond its budget if need be: tables are made
// and filled again and again, and what they take is to be seen where all memory is. Never null.

nghttp2_hd_inflater* new_hpack_inflater();
nghttp2_hd_deflater* new_hpack_deflater(size_t table_bytes);

}  // namespace sluice
