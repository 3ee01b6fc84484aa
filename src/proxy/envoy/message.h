// Reads one message of Envoy's API, in the form of proto3 JSON, and reports each field that is not taken over.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "proxy/config/load/yaml.h"
#include "proxy/envoy/field_table.h"
#include "proxy/envoy/finding.h"

namespace sluice::envoy {

/// A message, or nothing where a field is absent: then all readers return what an absent field has. Refers to its tree
/// and subject. Names of fields may be in snake_case or lowerCamelCase.
class Message {
 public:
  Message() = default;
  /// Reports the fields of `node` that the table of `rule` does not have, and those that it ignores or refuses.
  Message(const config::Node& node, const MessageRule& rule, Subject& subject, std::string path);

  explicit operator bool() const { return node_ != nullptr; }
  /// The full name of the message.
  std::string_view type() const { return rule_ ? rule_->name : std::string_view(); }
  const config::Node* node() const { return node_; }
  Subject& subject() const { return *subject_; }
  /// `path.field`, for findings.
  std::string path_of(std::string_view field) const;

  bool has(std::string_view field) const { return find(field) != nullptr; }
  /// The value of `field`, or nullptr.
  const config::Node* find(std::string_view field) const;

  /// A text, a name of an enum, or a number as text; empty if absent.
  std::string text(std::string_view field) const;
  bool flag(std::string_view field, bool absent = false) const;
  /// A whole number that is not negative; what is none is refused.
  std::optional<uint64_t> number(std::string_view field) const;
  /// A duration, rounded up to whole milliseconds; what is none is refused.
  std::optional<std::chrono::milliseconds> duration(std::string_view field) const;
  std::vector<std::string> texts(std::string_view field) const;

  /// The message in `field`, which the table gives a type.
  Message sub(std::string_view field) const;
  std::vector<Message> subs(std::string_view field) const;
  /// The message in a field of type google.protobuf.Any. If the mapping does not read messages of its type, returns
  /// nothing, and any_type() says which it is.
  Message any(std::string_view field) const;
  /// The full name of the type of an Any; empty if the field is absent.
  std::string any_type(std::string_view field) const;
  /// The messages in a map from names to Any: typed_per_filter_config.
  std::vector<std::pair<std::string, Message>> any_map(std::string_view field) const;

  void refuse(std::string_view field, std::string_view message) const { report(field, message, Severity::kRefused); }
  void ignore(std::string_view field, std::string_view message) const { report(field, message, Severity::kIgnored); }
  void report(std::string_view field, std::string_view message, Severity severity) const;

 private:
  void check_field(const config::Node& key, const config::Node& value) const;
  void add_finding(std::string_view field, std::string_view message, Severity severity, bool of_all) const;
  Message any_of(const config::Node& node, std::string path) const;

  const config::Node* node_ = nullptr;
  const MessageRule* rule_ = nullptr;
  Subject* subject_ = nullptr;
  std::string path_;
};

/// The full name in `@type`, or in `type_url` of a TypedStruct; empty if there is none.
std::string type_of_any(const config::Node& node);
/// `lowerCamelCase` as `snake_case`; other names stay as they are.
std::string snake_case(std::string_view name);

}  // namespace sluice::envoy
