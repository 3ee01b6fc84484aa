// Which fields of Envoy's messages the mapping takes over: the source of its findings, and of docs/reference/xds.md.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace sluice::envoy {

enum class Support : uint8_t {
  kYes,      ///< It is taken over, or has no effect on what is forwarded.
  kIgnored,  ///< A finding says that it is not taken over; what is forwarded is the same without it.
  kRefused,  ///< A finding says that Sluice has no counterpart.
};

/// One field of a message.
struct FieldRule {
  std::string_view name;  ///< In snake_case.
  Support support = Support::kYes;
  std::string_view note;  ///< What becomes of it, for documentation and findings.
  std::string_view type;  ///< The full name of its message, if it is one (or a list of them) that the mapping reads.
};

/// One message of Envoy's API, v3.
struct MessageRule {
  std::string_view name;  ///< Full name, without `type.googleapis.com/`.
  std::span<const FieldRule> fields;

  const FieldRule* find(std::string_view field) const;
};

/// Returns the message of that full name, or nullptr if the mapping does not read it.
const MessageRule* find_message_rule(std::string_view name);

/// The tables of messages, by the part of the API that they are of.
std::span<const MessageRule> listener_messages();
std::span<const MessageRule> filter_messages();
std::span<const MessageRule> route_messages();
std::span<const MessageRule> cluster_messages();
std::span<const MessageRule> common_messages();

/// All tables in the form of docs/reference/xds.md.
std::string field_reference_markdown();

}  // namespace sluice::envoy
