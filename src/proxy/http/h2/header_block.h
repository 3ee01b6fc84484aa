#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "proxy/http/h2/limits.h"
#include "proxy/http/h2/priority.h"
#include "proxy/http/message/head.h"
#include "sluice/lease.h"

namespace sluice {

/// Builds a head or a trailer section from the fields of a header block, in order, and validates it: RFC 9113 section
/// 8, RFC 8441. It is strict: anything that could smuggle a request when it is forwarded as HTTP/1.1 makes the block
/// malformed.
class Http2HeaderBlock {
 public:
  enum class Kind : uint8_t { kRequest, kResponse, kTrailers, kIgnored };
  enum class Verdict : uint8_t { kGood, kMalformed, kTooLarge };
  static constexpr uint64_t kNoLength = ~uint64_t{0};

  Http2HeaderBlock() = default;
  /// `extended_connect` permits :protocol in a request.
  explicit Http2HeaderBlock(Kind kind, bool extended_connect = false)
      : kind_(kind), extended_connect_(extended_connect) {}

  Kind kind() const { return kind_; }
  Verdict verdict() const { return verdict_; }
  /// The rule that a malformed block breaks, as a string literal; otherwise null.
  const char* error() const { return error_; }
  /// Reserves room for a block of `encoded_bytes` and for the fields that a proxy adds. A hint.
  void expect(ChunkPool& pool, size_t encoded_bytes);
  /// Adds the next field. Returns false if the fields, including those not kept, have become too many or too large even
  /// for the hard limits: the connection must end.
  [[nodiscard]] bool add(ChunkPool& pool, const Http2Limits& limits, std::string_view name, std::string_view value,
                         bool sensitive);
  /// Completes the block. Afterwards verdict() is final, and head() is complete if the verdict is kGood.
  void finish(ChunkPool& pool);

  Head& head() { return head_; }
  const Head& head() const { return head_; }
  /// The size of all fields received, kept or not, counted as for SETTINGS_MAX_HEADER_LIST_SIZE.
  uint32_t list_bytes() const { return bytes_; }
  uint64_t content_length() const { return content_length_; }
  Http2Priority priority() const { return priority_; }
  bool has_pseudo() const { return has_pseudo_; }
  bool connect() const { return connect_; }  ///< The method is CONNECT, extended or not.

 private:
  bool add_pseudo(ChunkPool& pool, std::string_view name, std::string_view value);
  bool add_part(ChunkPool& pool, Head::Part part, std::string_view value);
  bool add_field(ChunkPool& pool, std::string_view name, std::string_view value, bool sensitive);
  bool add_crumb(ChunkPool& pool, std::string_view value, bool sensitive);
  bool add_content_length(std::string_view value);
  bool add_host(ChunkPool& pool, std::string_view value);
  bool finish_request();
  /// Records the rule that the block breaks. Returns false.
  bool breaks(const char* rule);
  bool kept(bool kept);
  bool has(Head::Part part) const { return (parts_ & 1u << static_cast<unsigned>(part)) != 0; }

  Head head_;
  Lease cookie_;  // Cookie crumbs joined so far.
  uint64_t content_length_ = kNoLength;
  const char* error_ = nullptr;
  uint32_t bytes_ = 0;  // Counted as for SETTINGS_MAX_HEADER_LIST_SIZE.
  uint16_t fields_ = 0;
  Kind kind_ = Kind::kIgnored;
  Verdict verdict_ = Verdict::kGood;
  Http2Priority priority_;
  uint8_t parts_ = 0;
  uint8_t pseudo_fields_ = 0;
  bool extended_connect_ = false;
  bool fields_begun_ = false;
  bool cookie_sensitive_ = false;
  bool has_host_ = false;
  bool connect_ = false;
  bool has_pseudo_ = false;
};

}  // namespace sluice
