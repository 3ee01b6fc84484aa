#include "proxy/envoy/proto_tree.h"

#include <bit>
#include <cstdint>
#include <string>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "proxy/common/proto_reader.h"
#include "proxy/envoy/wire_format.h"
#include "proxy/envoy/yaml_writer.h"

namespace sluice::envoy {
namespace {

using config::Node;

// As deep as protobuf's own libraries read.
constexpr int kMaxDepth = 100;
constexpr std::string_view kWellKnown = "google.protobuf.";

class TreeReader {
 public:
  explicit TreeReader(size_t& values_left) : values_left_(values_left) {}

  absl::Status read(std::string_view type, std::string_view bytes, Node& node) {
    if (read_type(type, bytes, node, 0)) return absl::OkStatus();
    if (values_left_ == 0) return absl::ResourceExhaustedError(absl::StrCat(type, " has too many values"));
    return absl::InvalidArgumentError(absl::StrCat(type, " is malformed", path_.empty() ? "" : " in ", path_));
  }

 private:
  bool read_type(std::string_view type, std::string_view bytes, Node& node, int depth) {
    if (depth > kMaxDepth || !take_value()) return false;
    if (type.starts_with(kWellKnown)) return read_well_known(type.substr(kWellKnown.size()), bytes, node, depth);
    node = map_node();
    const WireMessage* const message = find_wire_message(type);
    if (message == nullptr) return true;
    ProtoReader in(bytes);
    while (in.next()) {
      const WireField* const field = message->find(in.field());
      if (field == nullptr) {
        if (!take_value()) return false;
        put(node, absl::StrCat("field_", in.field()), "of a later version");
      } else if (!read_field(*field, in, node, depth)) {
        if (path_.empty()) path_ = field->name;
        return false;
      }
    }
    return in.ok();
  }

  bool read_field(const WireField& field, const ProtoReader& in, Node& node, int depth) {
    if (field.is_map) return in.wire() == ProtoWire::kBytes && read_entry(field, in.bytes(), node, depth);
    if (field.is_repeated) {
      Node& list = list_at(node, field.name);
      const bool packed = in.wire() == ProtoWire::kBytes && is_number(field.kind);
      return packed ? read_packed(field, in.bytes(), list) : read_value(field, in, list.items.emplace_back(), depth);
    }
    // Several parts of a message are one message; of scalars, the last counts.
    Node value;
    if (!read_value(field, in, value, depth)) return false;
    Node* const before = find_key(node, field.name);
    if (before == nullptr) {
      put(node, field.name, std::move(value));
    } else if (field.kind != WireKind::kMessage) {
      *before = std::move(value);
    } else {
      for (size_t i = 0; i < value.keys.size(); ++i) put(*before, value.keys[i].text, std::move(value.items[i]));
    }
    return true;
  }

  bool take_value() {
    if (values_left_ == 0) return false;
    --values_left_;
    return true;
  }

  static Node* find_key(Node& map, std::string_view key) {
    for (size_t i = 0; i < map.keys.size(); ++i) {
      if (map.keys[i].text == key) return &map.items[i];
    }
    return nullptr;
  }

  static bool is_number(WireKind kind) {
    return kind != WireKind::kString && kind != WireKind::kBytes && kind != WireKind::kMessage;
  }

  static ProtoWire wire_of(WireKind kind) {
    switch (kind) {
      case WireKind::kString:
      case WireKind::kBytes:
      case WireKind::kMessage:
        return ProtoWire::kBytes;
      case WireKind::kDouble:
      case WireKind::kFixed64:
        return ProtoWire::kFixed64;
      case WireKind::kFloat:
      case WireKind::kFixed32:
        return ProtoWire::kFixed32;
      default:
        return ProtoWire::kVarint;
    }
  }

  static std::string number_text(const WireField& field, uint64_t value) {
    switch (field.kind) {
      case WireKind::kBool:
        return value != 0 ? "true" : "false";
      case WireKind::kDouble:
        return absl::StrCat(std::bit_cast<double>(value));
      case WireKind::kFloat:
        return absl::StrCat(std::bit_cast<float>(static_cast<uint32_t>(value)));
      case WireKind::kInt:
        return absl::StrCat(static_cast<int64_t>(value));
      case WireKind::kSint:
        return absl::StrCat(static_cast<int64_t>(value >> 1) ^ -static_cast<int64_t>(value & 1));
      case WireKind::kEnum:
        return wire_enum_text(field.type, value);
      default:
        return absl::StrCat(value);
    }
  }

  bool read_value(const WireField& field, const ProtoReader& in, Node& node, int depth) {
    if (in.wire() != wire_of(field.kind) || !take_value()) return false;
    if (field.kind == WireKind::kMessage) return read_type(field.type, in.bytes(), node, depth + 1);
    node = scalar_node(field.kind == WireKind::kString  ? std::string(in.bytes())
                       : field.kind == WireKind::kBytes ? absl::Base64Escape(in.bytes())
                                                        : number_text(field, in.number()));
    return true;
  }

  // Numbers one after the other, without tags. Each gets a tag here, so that one reader serves both forms.
  bool read_packed(const WireField& field, std::string_view bytes, Node& list) {
    const ProtoWire wire = wire_of(field.kind);
    while (!bytes.empty()) {
      size_t size = wire == ProtoWire::kFixed64 ? 8 : wire == ProtoWire::kFixed32 ? 4 : 0;
      if (size == 0) {
        while (size < bytes.size() && (static_cast<uint8_t>(bytes[size]) & 0x80) != 0) ++size;
        ++size;
      }
      if (size > bytes.size()) return false;
      const std::string tagged =
          absl::StrCat(std::string(1, static_cast<char>(1 << 3 | static_cast<int>(wire))), bytes.substr(0, size));
      ProtoReader in(tagged);
      if (!in.next() || !take_value()) return false;
      list.items.push_back(scalar_node(number_text(field, in.number())));
      bytes.remove_prefix(size);
    }
    return true;
  }

  // An entry of map<string, T>: key = 1, value = 2
  bool read_entry(const WireField& field, std::string_view bytes, Node& node, int depth) {
    std::string key;
    Node value;
    if (field.kind == WireKind::kMessage && !read_type(field.type, {}, value, depth + 1)) return false;
    if (field.kind != WireKind::kMessage) value = scalar_node("");
    ProtoReader in(bytes);
    while (in.next()) {
      if (in.is(1, ProtoWire::kBytes)) key = std::string(in.bytes());
      if (in.field() == 2 && !read_value(field, in, value, depth)) return false;
    }
    if (!in.ok()) return false;
    put(map_at(node, field.name), key, std::move(value));
    return true;
  }

  // Any { type_url = 1, value = 2 }
  bool read_any_fields(std::string_view bytes, Node& node, int depth) {
    std::string_view type, value;
    ProtoReader in(bytes);
    while (in.next()) {
      if (in.is(1, ProtoWire::kBytes)) type = in.bytes();
      if (in.is(2, ProtoWire::kBytes)) value = in.bytes();
    }
    return in.ok() && read_inner(type, value, node, depth);
  }

  bool read_inner(std::string_view type_url, std::string_view value, Node& node, int depth) {
    const size_t slash = type_url.rfind('/');
    const std::string_view type = slash == std::string_view::npos ? type_url : type_url.substr(slash + 1);
    // TypedStruct { type_url = 1, value = 2 }
    if (type == "udpa.type.v1.TypedStruct" || type == "xds.type.v3.TypedStruct") {
      node = map_node();
      put(node, "@type", type_url);
      ProtoReader in(value);
      while (in.next()) {
        if (in.is(1, ProtoWire::kBytes)) put(node, "type_url", in.bytes());
        Node inner;
        if (!in.is(2, ProtoWire::kBytes)) continue;
        if (!read_type("google.protobuf.Struct", in.bytes(), inner, depth + 1)) return false;
        put(node, "value", std::move(inner));
      }
      return in.ok();
    }
    Node fields;
    if (!read_type(type, value, fields, depth + 1)) return false;
    node = map_node();
    put(node, "@type", type_url);
    if (fields.kind != Node::Kind::kMap) {
      put(node, "value", std::move(fields));
      return true;
    }
    for (size_t i = 0; i < fields.keys.size(); ++i) put(node, fields.keys[i].text, std::move(fields.items[i]));
    return true;
  }

  bool read_well_known(std::string_view name, std::string_view bytes, Node& node, int depth) {
    if (name == "Any") return read_any_fields(bytes, node, depth);
    if (name == "Duration" || name == "Timestamp") return read_duration(bytes, node);
    if (name == "Struct") return read_struct(bytes, node, depth);
    if (name == "Value") return read_struct_value(bytes, node, depth);
    if (name == "ListValue") return read_list_value(bytes, node, depth);
    if (!name.ends_with("Value")) {
      node = map_node();
      return true;
    }
    return read_wrapper(name, bytes, node);
  }

  // BoolValue and the like: { value = 1 }
  static bool read_wrapper(std::string_view name, std::string_view bytes, Node& node) {
    const WireKind kind = name == "BoolValue"                            ? WireKind::kBool
                          : name == "DoubleValue"                        ? WireKind::kDouble
                          : name == "FloatValue"                         ? WireKind::kFloat
                          : name == "StringValue"                        ? WireKind::kString
                          : name == "BytesValue"                         ? WireKind::kBytes
                          : name == "Int32Value" || name == "Int64Value" ? WireKind::kInt
                                                                         : WireKind::kUint;
    const WireField field{.number = 1, .name = "value", .kind = kind, .type = {}};
    node = scalar_node(is_number(kind) ? number_text(field, 0) : std::string());
    ProtoReader in(bytes);
    while (in.next()) {
      if (in.is(1, wire_of(kind))) {
        node = scalar_node(kind == WireKind::kString  ? std::string(in.bytes())
                           : kind == WireKind::kBytes ? absl::Base64Escape(in.bytes())
                                                      : number_text(field, in.number()));
      }
    }
    return in.ok();
  }

  // Duration { seconds = 1, nanos = 2 }
  static bool read_duration(std::string_view bytes, Node& node) {
    int64_t seconds = 0, nanos = 0;
    ProtoReader in(bytes);
    while (in.next()) {
      if (in.is(1, ProtoWire::kVarint)) seconds = static_cast<int64_t>(in.number());
      if (in.is(2, ProtoWire::kVarint)) nanos = static_cast<int32_t>(in.number());
    }
    const bool negative = seconds < 0 || nanos < 0;
    const auto size = [](int64_t value) {
      return value < 0 ? -static_cast<uint64_t>(value) : static_cast<uint64_t>(value);
    };
    std::string text = absl::StrCat(negative ? "-" : "", size(seconds));
    if (nanos != 0) absl::StrAppendFormat(&text, ".%09d", size(nanos));
    node = scalar_node(text + "s");
    return in.ok();
  }

  // Struct { fields = 1 }, a map<string, Value>
  bool read_struct(std::string_view bytes, Node& node, int depth) {
    node = map_node();
    ProtoReader in(bytes);
    while (in.next()) {
      if (!in.is(1, ProtoWire::kBytes)) continue;
      std::string key;
      Node value;
      ProtoReader entry(in.bytes());
      while (entry.next()) {
        if (entry.is(1, ProtoWire::kBytes)) key = std::string(entry.bytes());
        if (entry.is(2, ProtoWire::kBytes) && !read_type("google.protobuf.Value", entry.bytes(), value, depth + 1)) {
          return false;
        }
      }
      if (!entry.ok()) return false;
      put(node, key, std::move(value));
    }
    return in.ok();
  }

  // Value { null_value = 1, number_value = 2, string_value = 3, bool_value = 4, struct_value = 5, list_value = 6 }
  bool read_struct_value(std::string_view bytes, Node& node, int depth) {
    ProtoReader in(bytes);
    while (in.next()) {
      if (in.is(2, ProtoWire::kFixed64)) node = scalar_node(absl::StrCat(std::bit_cast<double>(in.number())));
      if (in.is(3, ProtoWire::kBytes)) node = scalar_node(std::string(in.bytes()));
      if (in.is(4, ProtoWire::kVarint)) node = scalar_node(in.number() != 0 ? "true" : "false");
      if (in.is(5, ProtoWire::kBytes) && !read_type("google.protobuf.Struct", in.bytes(), node, depth + 1))
        return false;
      if (in.is(6, ProtoWire::kBytes) && !read_type("google.protobuf.ListValue", in.bytes(), node, depth + 1)) {
        return false;
      }
    }
    return in.ok();
  }

  // ListValue { values = 1 }
  bool read_list_value(std::string_view bytes, Node& node, int depth) {
    node = list_node();
    ProtoReader in(bytes);
    while (in.next()) {
      if (in.is(1, ProtoWire::kBytes) &&
          !read_type("google.protobuf.Value", in.bytes(), node.items.emplace_back(), depth + 1)) {
        return false;
      }
    }
    return in.ok();
  }

  size_t& values_left_;
  std::string path_;  // The innermost field that is malformed.
};

}  // namespace

absl::Status read_message(std::string_view type, std::string_view bytes, size_t& values_left, Node& node) {
  return TreeReader(values_left).read(type, bytes, node);
}

}  // namespace sluice::envoy
