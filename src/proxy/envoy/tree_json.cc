#include "proxy/envoy/tree_json.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <limits>
#include <optional>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "proxy/envoy/json_rules.h"
#include "proxy/envoy/message.h"

namespace sluice::envoy {
namespace {

using config::Node;

const WireField* field_of(const WireMessage& message, std::string_view name) {
  const auto found = std::find_if(message.fields.begin(), message.fields.end(),
                                  [&](const WireField& each) { return each.name == name; });
  return found == message.fields.end() ? nullptr : &*found;
}

bool holds_struct(std::string_view type) {
  return type == "udpa.type.v1.TypedStruct" || type == "xds.type.v3.TypedStruct";
}

}  // namespace

void TreeJson::write(std::string_view type, const Node& node) {
  out_.begin_object();
  write_members(type, node);
  out_.end_object();
}

void TreeJson::write_any(std::string_view type, const Node& node) {
  out_.begin_object().member("@type", absl::StrCat("type.googleapis.com/", type));
  write_members(type, node);
  out_.end_object();
}

void TreeJson::write_members(std::string_view type, const Node& node) {
  if (node.kind != Node::Kind::kMap) return;
  const WireMessage* const message = find_wire_message(type);
  for (size_t i = 0; i < node.keys.size(); ++i) {
    const std::string name = snake_case(node.keys[i].text);
    if (name == "@type") continue;
    const WireField* const field = message != nullptr ? field_of(*message, name) : nullptr;
    if (field == nullptr) {
      left_out_.insert(message != nullptr ? absl::StrCat(type, ": ", name) : std::string(type));
      continue;
    }
    const bool is_hidden = std::exchange(is_secret_, is_secret_ || is_secret_field(type, field->name));
    const bool is_text = field->kind == WireKind::kString || field->kind == WireKind::kBytes;
    if (!is_secret_ || is_text || field->kind == WireKind::kMessage) write_field(*field, node.items[i]);
    is_secret_ = is_hidden;
  }
}

void TreeJson::write_field(const WireField& field, const Node& node) {
  out_.key(field.name);
  if (field.is_map) {
    out_.begin_object();
    for (size_t i = 0; i < node.keys.size(); ++i) {
      out_.key(node.keys[i].text);
      write_value(field, node.items[i]);
    }
    out_.end_object();
  } else if (field.is_repeated) {
    out_.begin_array();
    if (node.kind == Node::Kind::kList) {
      for (const Node& item : node.items) write_value(field, item);
    } else if (node.kind != Node::Kind::kNull) {
      write_value(field, node);
    }
    out_.end_array();
  } else {
    write_value(field, node);
  }
}

void TreeJson::write_value(const WireField& field, const Node& node) {
  if (field.kind == WireKind::kMessage) return write_message(field.type, node);
  if (node.kind != Node::Kind::kScalar) return void(out_.null());
  const std::string& text = node.text;
  switch (field.kind) {
    case WireKind::kString:
      return write_text(text);
    case WireKind::kBytes:
      out_.value(is_secret_ ? absl::Base64Escape(kRedacted) : text);
      return;
    case WireKind::kBool:
      text == "true" || text == "false" ? out_.value(text == "true") : out_.value(text);
      return;
    case WireKind::kDouble:
    case WireKind::kFloat:
      return write_float(text);
    default:
      return write_integer(text);  // An enumeration has names, or numbers.
  }
}

void TreeJson::write_message(std::string_view type, const Node& node) {
  if (!type.starts_with(kWellKnownTypes)) return write(type, node);
  const std::string_view name = type.substr(kWellKnownTypes.size());
  if (name == "Any") return write_any_value(node);
  if (name == "Struct" || name == "Value" || name == "ListValue") return write_untyped(node);
  if (const std::optional<WireKind> wrapped = wrapped_kind(name)) {
    return write_value({.number = 1, .name = "value", .kind = *wrapped, .type = {}}, node);
  }
  node.kind == Node::Kind::kScalar ? write_text(node.text) : write(type, node);  // Duration and the like are texts.
}

void TreeJson::write_any_value(const Node& node) {
  const Node* const url = node.kind == Node::Kind::kMap ? node.find("@type") : nullptr;
  out_.begin_object();
  if (url != nullptr) {
    out_.member("@type", url->text);
    const std::string type = url->text.substr(url->text.rfind('/') + 1);
    const auto write_part = [&](std::string_view part) {
      const Node* const value = node.find(part);
      if (value == nullptr) return;
      out_.key(part);
      write_untyped(*value);
    };
    if (holds_struct(type)) {
      write_part("type_url");
      write_part("value");
    } else if (type.starts_with(kWellKnownTypes) && type != "google.protobuf.Empty") {
      write_part("value");
    } else {
      write_members(type, node);
    }
  }
  out_.end_object();
}

// A Struct: the file does not say what its scalars are, so they are what they look like.
void TreeJson::write_untyped(const Node& node) {
  switch (node.kind) {
    case Node::Kind::kNull:
      out_.null();
      return;
    case Node::Kind::kScalar:
      if (node.text == "true" || node.text == "false") {
        out_.value(node.text == "true");
        return;
      }
      return is_secret_ ? write_text(node.text) : write_float(node.text);
    case Node::Kind::kList:
      out_.begin_array();
      for (const Node& item : node.items) write_untyped(item);
      out_.end_array();
      return;
    case Node::Kind::kMap:
      out_.begin_object();
      for (size_t i = 0; i < node.keys.size(); ++i) {
        out_.key(node.keys[i].text);
        write_untyped(node.items[i]);
      }
      out_.end_object();
  }
}

void TreeJson::write_text(std::string_view text) { out_.value(is_secret_ ? kRedacted : text); }

// As ProtoJson does it: numbers of 64 bits are texts.
void TreeJson::write_integer(const std::string& text) {
  int64_t number = 0;
  const bool is_short = absl::SimpleAtoi(text, &number) && number >= std::numeric_limits<int32_t>::min() &&
                        number <= int64_t{std::numeric_limits<uint32_t>::max()};
  is_short ? out_.value(number) : out_.value(text);
}

void TreeJson::write_float(const std::string& text) {
  double number = 0;
  if (!absl::SimpleAtod(text, &number) || !std::isfinite(number)) return void(out_.value(text));
  char digits[32];
  const auto written = std::to_chars(std::begin(digits), std::end(digits), number);
  out_.number({std::begin(digits), written.ptr});
}

}  // namespace sluice::envoy
