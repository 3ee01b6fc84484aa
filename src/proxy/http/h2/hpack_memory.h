#pragma once

#include <cstddef>

struct nghttp2_hd_deflater;
struct nghttp2_hd_inflater;

namespace sluice {

// Create libnghttp2 coders whose memory lies in chunks of the current pool, beyond its budget if need be. Tables are
// created and refilled often, and pool statistics should show the memory that they take. Never return null.

nghttp2_hd_inflater* new_hpack_inflater();
nghttp2_hd_deflater* new_hpack_deflater(size_t table_bytes);

}  // namespace sluice
