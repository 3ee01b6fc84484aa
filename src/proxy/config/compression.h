// Which answers are compressed, and how.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "proxy/config/units.h"

namespace sluice::config {

enum class Coding : uint8_t { kGzip, kBrotli, kZstd };

/// Of responses, for clients that take it.
struct Compression {
  std::vector<Coding> codings;     ///< In the order of preference. Empty: zstd, br, gzip.
  std::vector<std::string> types;  ///< Media types. Empty: text, JSON, JavaScript, XML, SVG, WebAssembly.
  Size min_size{1 * kKiB};         ///< Of a body whose length is told.
  uint32_t max_streams = 1024;     ///< At once, on one worker; what is more passes as it is.

  bool operator==(const Compression&) const = default;
};

}  // namespace sluice::config
