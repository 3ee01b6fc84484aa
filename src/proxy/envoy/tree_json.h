// Messages that are written in a file, as JSON.
#pragma once

#include <set>
#include <string>
#include <string_view>

#include "proxy/common/json_writer.h"
#include "proxy/config/load/yaml.h"
#include "proxy/envoy/wire_format.h"

namespace sluice::envoy {

/// Writes messages like ProtoJson, but from trees in the form of proto3 JSON: of files, whose scalars have no types.
/// Fields are in the order of the file. What has no value of its type stays a text.
class TreeJson {
 public:
  /// `out` outlives it.
  explicit TreeJson(JsonWriter& out) : out_(out) {}

  /// Writes a message of the full name `type`.
  void write(std::string_view type, const config::Node& node);
  /// The same as an Any: with `@type`.
  void write_any(std::string_view type, const config::Node& node);
  /// The messages and fields that wire_format.txt lacks, so that their contents were left out, of all calls.
  const std::set<std::string>& left_out() const { return left_out_; }

 private:
  void write_members(std::string_view type, const config::Node& node);
  void write_field(const WireField& field, const config::Node& node);
  void write_value(const WireField& field, const config::Node& node);
  void write_message(std::string_view type, const config::Node& node);
  void write_any_value(const config::Node& node);
  void write_untyped(const config::Node& node);
  void write_text(std::string_view text);
  void write_integer(const std::string& text);
  void write_float(const std::string& text);

  JsonWriter& out_;
  bool is_secret_ = false;
  std::set<std::string> left_out_;
};

}  // namespace sluice::envoy
