#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "proxy/compression/content_coding.h"

namespace sluice {

/// What a client takes, by its Accept-Encoding (RFC 9110 section 12.5.3).
class AcceptEncoding {
 public:
  /// Reads the value of one field, in addition to what was read before. False when it is malformed: then nothing of the
  /// field should be believed.
  [[nodiscard]] bool read(std::string_view value);

  /// The weight of a coding in thousandths: 0 to 1000, and 0 where it is not accepted. Identity is accepted unless it
  /// is said not to be, with the least weight there is if nothing is said about it.
  uint16_t weight(ContentCoding coding) const;

  /// The coding of `offered` that the client likes best, the first of them where it likes several the same; identity,
  /// where it takes none of them, or likes identity better.
  ContentCoding choose(std::span<const ContentCoding> offered) const;

 private:
  bool read_item(std::string_view item);

  std::array<std::optional<uint16_t>, kContentCodings> weights_;
  std::optional<uint16_t> any_other_;  // `*`
};

}  // namespace sluice
