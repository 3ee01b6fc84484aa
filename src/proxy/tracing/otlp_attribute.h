// Attributes in the protobuf encoding of OTLP, version 1 (opentelemetry/proto/common/v1/common.proto).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "proxy/common/proto_writer.h"

namespace sluice {

/// Texts of a record are cut to this length, in bytes.
inline constexpr size_t kMaxOtlpText = 1024;

/// An attribute of a record: a text, or a number.
struct OtlpAttribute {
  std::string_view key;
  std::string_view text;
  int64_t number = 0;
  bool is_number = false;

  static OtlpAttribute of(std::string_view key, std::string_view text) { return {.key = key, .text = text}; }
  static OtlpAttribute of_number(std::string_view key, int64_t number) {
    return {.key = key, .text = {}, .number = number, .is_number = true};
  }
};

/// Texts of protobuf are UTF-8: a receiver may refuse a whole request for one that is not. Returns as much of a text as
/// has room, with U+FFFD for each byte that is not UTF-8: the text itself, or a copy in `room`.
std::string_view valid_text(std::string_view text, std::span<char> room);

/// Writes an attribute as a field of a record; nothing if its text is empty.
void write_attribute(ProtoWriter& out, uint32_t field, const OtlpAttribute& attribute);

}  // namespace sluice
