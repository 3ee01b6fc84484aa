// Which responses are compressed, and how.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "proxy/config/model/units.h"

namespace sluice::config {

enum class Coding : uint8_t { kGzip, kBrotli, kZstd };

/// Compression of responses, for clients that accept it.
struct Compression {
  std::vector<Coding> codings;     ///< In order of preference. Empty: zstd, br, gzip.
  std::vector<std::string> types;  ///< Media types. Empty: text, JSON, JavaScript, XML, SVG, WebAssembly.
  Size min_size{1 * kKiB};         ///< Shortest body to compress. Applies to bodies of known length only.
  /// 1 (fast) to 9 (small), for all codings. 4 is about the highest level that is still fast in each coding.
  uint32_t level = 4;
  /// Responses compressed concurrently on one worker; any more are sent uncompressed. Each holds 260 KiB (gzip) to 3
  /// MiB (br at level 9) from its first byte to its end, so 128 take some 150 MiB with zstd if all clients are slow.
  uint32_t max_streams = 128;

  bool operator==(const Compression&) const = default;
};

}  // namespace sluice::config
