#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace sluice {

/// How the content of a message is encoded (RFC 9110 section 8.4.1): the codings that the proxy can produce.
enum class ContentCoding : uint8_t { kIdentity, kGzip, kBrotli, kZstd };
inline constexpr size_t kContentCodings = 4;

/// Its name in Content-Encoding: gzip (RFC 1952), br (RFC 7932), zstd (RFC 8878).
constexpr std::string_view content_coding_name(ContentCoding coding) {
  constexpr std::string_view kNames[kContentCodings] = {"identity", "gzip", "br", "zstd"};
  return kNames[static_cast<size_t>(coding)];
}

}  // namespace sluice
