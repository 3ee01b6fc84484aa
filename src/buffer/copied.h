#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace sluice {

/// Payload bytes that this thread has copied in user space since it started (`sluice_copied_bytes_total`).
/// Plain forwarding leaves it at 0.
inline constinit thread_local uint64_t copied_bytes = 0;

/// memcpy that is counted. Every copy of payload goes through it. The ranges must not overlap.
inline void counted_copy(void* to, const void* from, size_t bytes) {
  copied_bytes += bytes;
  std::memcpy(to, from, bytes);
}

}  // namespace sluice
