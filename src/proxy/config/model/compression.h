// Which answers are compressed, and how.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "proxy/config/model/units.h"

namespace sluice::config {

enum class Coding : uint8_t { kGzip, kBrotli, kZstd };

/// Of responses, for clients that take it.
struct Compression {
  std::vector<Coding> codings;     ///< In the order of preference. Empty: zstd, br, gzip.
  std::vector<std::string> types;  ///< Media types. Empty: text, JSON, JavaScript, XML, SVG, WebAssembly.
  Size min_size{1 * kKiB};         ///< Of a body whose length is told.
  /// 1 (fast) to 9 (small), for all codings. 4: in each the last that is fast, or nearly.
  uint32_t level = 4;
  /// At once, on one worker; what is more passes as it is. Each that has begun holds 260 KiB (gzip) to 3 MiB (br at
  /// level 9) until its end, so 128 are some 150 MiB of zstd where all clients are slow.
  uint32_t max_streams = 128;

  bool operator==(const Compression&) const = default;
};

}  // namespace sluice::config
