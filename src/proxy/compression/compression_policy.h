#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "pool/chunk_pool.h"
#include "proxy/compression/content_coding.h"
#include "proxy/config/model/compression.h"
#include "proxy/http/message/head.h"

namespace sluice {

/// Which responses of a listener are compressed, and how.
class CompressionPolicy {
 public:
  explicit CompressionPolicy(const config::Compression& config);

  uint32_t level() const { return level_; }
  uint32_t max_streams() const { return max_streams_; }

  /// The coding for the responses to a client that has sent these fields: identity where it takes none, or wants
  /// nothing to be transformed.
  ContentCoding choose(const Fields& request) const;

  /// Whether a response that has a body is compressed for those who take it. Not one that is encoded already, is a part
  /// or is short, must not be transformed (RFC 9110 section 7.7), or is of another media type.
  bool takes(const Head& response) const;

  const std::vector<std::string>& types() const { return types_; }

 private:
  std::vector<ContentCoding> codings_;
  std::vector<std::string> types_;  // In lower case.
  uint64_t min_bytes_;
  uint32_t level_;
  uint32_t max_streams_;
};

/// Says in a response that another client might get it in another coding (RFC 9110 section 12.5.5). False when there is
/// no room.
[[nodiscard]] bool add_vary(ChunkPool& pool, Head& response);

/// Says in a response how it is encoded, and no more what holds for its bytes as they were: its length and digests; its
/// entity tag becomes a weak one. False when there is no room.
[[nodiscard]] bool mark_encoded(ChunkPool& pool, ContentCoding coding, Head& response);

}  // namespace sluice
