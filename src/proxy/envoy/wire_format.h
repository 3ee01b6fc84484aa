// The wire format of the messages that a control plane sends: wire_format.txt as tables.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace sluice::envoy {

enum class WireKind : uint8_t {
  kString,
  kBytes,
  kBool,
  kDouble,
  kFloat,
  kUint,
  kInt,
  kSint,
  kFixed32,
  kFixed64,
  kEnum,
  kMessage,
};

struct WireField {
  uint32_t number;
  std::string_view name;
  WireKind kind;
  std::string_view type;  ///< The full name of the message or enumeration.
  bool is_repeated = false;
  bool is_map = false;  ///< From string.
};

struct WireMessage {
  std::vector<WireField> fields;  ///< By number.

  /// The field of this number, or nullptr.
  const WireField* find(uint32_t number) const;
};

/// The message of this full name, or nullptr.
const WireMessage* find_wire_message(std::string_view name);
/// The name of a value of an enumeration; its number as text if it has none.
std::string wire_enum_text(std::string_view enumeration, uint64_t value);

/// The text of wire_format.txt.
std::string_view wire_format_text();

}  // namespace sluice::envoy
