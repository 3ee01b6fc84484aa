#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "proxy/compression/content_coding.h"
#include "proxy/config/model/compression.h"
#include "proxy/http/message/head.h"
#include "sluice/chunk_pool.h"

namespace sluice {

/// Decides which responses of a listener are compressed, and how.
class CompressionPolicy {
 public:
  explicit CompressionPolicy(const config::Compression& config);

  uint32_t level() const { return level_; }
  uint32_t max_streams() const { return max_streams_; }

  /// The coding for responses to a client that sent these fields. Identity if the client accepts no other, or forbids
  /// transformation.
  ContentCoding choose(const Fields& request) const;

  /// Whether a response with a body is compressed for clients that accept it. It is not if it is already encoded, is
  /// partial or too short, must not be transformed (RFC 9110 section 7.7), or has a media type that is not configured.
  bool takes(const Head& response) const;

  const std::vector<std::string>& types() const { return types_; }

 private:
  std::vector<ContentCoding> codings_;
  std::vector<std::string> types_;  // In lower case.
  uint64_t min_bytes_;
  uint32_t level_;
  uint32_t max_streams_;
};

/// Adds Vary: accept-encoding to a response (RFC 9110 section 12.5.5). Returns false if there is no room.
[[nodiscard]] bool add_vary(ChunkPool& pool, Head& response);

/// Adds Content-Encoding to a response, and removes fields that describe the original bytes: length and digests.
/// Weakens the entity tag. Returns false if there is no room.
[[nodiscard]] bool mark_encoded(ChunkPool& pool, ContentCoding coding, Head& response);

}  // namespace sluice
