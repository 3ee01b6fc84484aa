#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "proxy/compression/content_coding.h"

namespace sluice {

/// The content codings that a client accepts, from its Accept-Encoding (RFC 9110 section 12.5.3).
class AcceptEncoding {
 public:
  /// Parses the value of one field and adds it to the earlier ones. Returns false if it is malformed: the caller must
  /// then ignore all Accept-Encoding fields of the request.
  [[nodiscard]] bool read(std::string_view value);

  /// The weight of a coding in thousandths, from 0 to 1000; 0 means not accepted. Identity is accepted unless it is
  /// excluded explicitly or by `*`. If neither mentions it, it gets the lowest nonzero weight.
  uint16_t weight(ContentCoding coding) const;

  /// The coding from `offered` with the highest weight; the first one among equals. Returns identity if the client
  /// accepts none of them, or explicitly prefers identity.
  ContentCoding choose(std::span<const ContentCoding> offered) const;

 private:
  bool read_item(std::string_view item);

  std::array<std::optional<uint16_t>, kContentCodings> weights_;
  std::optional<uint16_t> any_other_;  // `*`
};

}  // namespace sluice
