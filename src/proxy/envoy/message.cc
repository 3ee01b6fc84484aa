#include "proxy/envoy/message.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "proxy/common/suggestions.h"

namespace sluice::envoy {
namespace {

using config::Node;

// A value that means the same as an absent field.
bool is_default_value(const Node& node) {
  if (node.kind == Node::Kind::kNull) return true;
  if (node.kind == Node::Kind::kList) return node.items.empty();
  return node.kind == Node::Kind::kScalar && (node.text.empty() || node.text == "false" || node.text == "0");
}

bool is_typed_struct(std::string_view type) { return type.ends_with(".TypedStruct"); }

std::string without_host(std::string_view url) {
  const size_t slash = url.rfind('/');
  return std::string(slash == std::string_view::npos ? url : url.substr(slash + 1));
}

// Whether snake_case(key) is `name`. Compares in place, since mapping thousands of resources is mostly this.
bool names_field(std::string_view key, std::string_view name) {
  size_t at = 0;
  for (const char c : key) {
    if (absl::ascii_isupper(static_cast<unsigned char>(c)) && (at == name.size() || name[at++] != '_')) return false;
    if (at == name.size() || name[at++] != absl::ascii_tolower(static_cast<unsigned char>(c))) return false;
  }
  return at == name.size();
}

const Node* find_member(const Node& map, std::string_view name) {
  for (size_t i = 0; i < map.keys.size(); ++i) {
    if (map.items[i].kind != Node::Kind::kNull && names_field(map.keys[i].text, name)) return &map.items[i];
  }
  return nullptr;
}

std::string_view or_fallback(std::string_view note, std::string_view fallback) {
  return note.empty() ? fallback : note;
}

}  // namespace

std::string snake_case(std::string_view name) {
  if (std::none_of(name.begin(), name.end(), absl::ascii_isupper)) return std::string(name);
  std::string out;
  for (const char c : name) {
    if (absl::ascii_isupper(static_cast<unsigned char>(c))) {
      out += '_';
      out += absl::ascii_tolower(static_cast<unsigned char>(c));
    } else {
      out += c;
    }
  }
  return out;
}

std::string type_of_any(const Node& node) {
  const Node* const type = node.find("@type");
  if (type == nullptr || type->kind != Node::Kind::kScalar) return "";
  std::string name = without_host(type->text);
  if (!is_typed_struct(name)) return name;
  const Node* const inner = find_member(node, "type_url");
  return inner != nullptr ? without_host(inner->text) : name;
}

Message::Message(const Node& node, const MessageRule& rule, Subject& subject, std::string path)
    : node_(&node), rule_(&rule), subject_(&subject), path_(std::move(path)) {
  if (node.kind != Node::Kind::kMap) {
    report("", absl::StrCat("expected a map, got ", config::describe_kind(node)), Severity::kRefused);
    node_ = nullptr;
    return;
  }
  for (size_t i = 0; i < node.keys.size(); ++i) check_field(node.keys[i], node.items[i]);
}

void Message::check_field(const Node& key, const Node& value) const {
  if (key.text == "@type" || value.kind == Node::Kind::kNull) return;
  const std::string name = snake_case(key.text);
  const FieldRule* const field = rule_->find(name);
  if (field == nullptr) {
    return report(key.text, absl::StrCat("this field of ", rule_->name, " is not known here"), Severity::kRefused);
  }
  if (field->support == Support::kYes || is_default_value(value)) return;
  const bool refused = field->support == Support::kRefused;
  add_finding(name, or_fallback(field->note, refused ? "Sluice has no counterpart" : "it has no effect here"),
              refused ? Severity::kRefused : Severity::kIgnored, true);
}

std::string Message::path_of(std::string_view field) const {
  return absl::StrCat(path_, path_.empty() || field.empty() ? "" : ".", field);
}

void Message::report(std::string_view field, std::string_view message, Severity severity) const {
  add_finding(field, message, severity, false);
}

void Message::add_finding(std::string_view field, std::string_view message, Severity severity, bool of_all) const {
  if (subject_ == nullptr) return;
  const Node* const value = node_ != nullptr && node_->kind == Node::Kind::kMap ? find_member(*node_, field) : nullptr;
  subject_->findings.add({.kind = subject_->kind,
                          .name = subject_->name,
                          .path = path_of(field),
                          .message = std::string(message),
                          .severity = severity,
                          .mark = value != nullptr   ? value->mark
                                  : node_ != nullptr ? node_->mark
                                                     : config::Mark{},
                          .of_all = of_all});
}

const Node* Message::find(std::string_view field) const {
  return node_ == nullptr ? nullptr : find_member(*node_, field);
}

std::string Message::text(std::string_view field) const {
  const Node* const value = find(field);
  if (value == nullptr) return "";
  if (value->kind == Node::Kind::kScalar) return value->text;
  refuse(field, absl::StrCat("expected a text, got ", config::describe_kind(*value)));
  return "";
}

bool Message::flag(std::string_view field, bool absent) const {
  const std::string value = text(field);
  if (value.empty()) return absent;
  if (value == "true" || value == "false") return value == "true";
  refuse(field, absl::StrCat("expected true or false, got ", config::in_quotes(value)));
  return absent;
}

std::optional<uint64_t> Message::number(std::string_view field) const {
  const std::string value = text(field);
  if (value.empty()) return std::nullopt;
  double number = 0;
  if (absl::SimpleAtod(value, &number) && number >= 0 && number < 9e15 && std::floor(number) == number) {
    return static_cast<uint64_t>(number);
  }
  refuse(field, absl::StrCat("expected a number, got ", config::in_quotes(value)));
  return std::nullopt;
}

std::optional<std::chrono::milliseconds> Message::duration(std::string_view field) const {
  const std::string value = text(field);
  if (value.empty()) return std::nullopt;
  std::string_view seconds = value;
  double number = 0;
  if (absl::ConsumeSuffix(&seconds, "s") && absl::SimpleAtod(seconds, &number) && number >= 0 && number < 1e11) {
    return std::chrono::milliseconds(static_cast<int64_t>(std::ceil(number * 1000 - 1e-6)));
  }
  refuse(field, absl::StrCat("expected a duration such as 5s or 0.25s, got ", config::in_quotes(value)));
  return std::nullopt;
}

std::vector<std::string> Message::texts(std::string_view field) const {
  std::vector<std::string> all;
  const Node* const value = find(field);
  if (value == nullptr) return all;
  if (value->kind == Node::Kind::kScalar) return {value->text};
  for (const Node& item : value->items) {
    if (item.kind == Node::Kind::kScalar) all.push_back(item.text);
  }
  return all;
}

Message Message::sub(std::string_view field) const {
  const Node* const value = find(field);
  if (value == nullptr) return {};
  const FieldRule* const rule = rule_->find(field);
  const MessageRule* const type = rule != nullptr ? find_message_rule(rule->type) : nullptr;
  return type != nullptr ? Message(*value, *type, *subject_, path_of(field)) : Message();
}

std::vector<Message> Message::subs(std::string_view field) const {
  std::vector<Message> all;
  const Node* const value = find(field);
  if (value == nullptr) return all;
  const FieldRule* const rule = rule_->find(field);
  const MessageRule* const type = rule != nullptr ? find_message_rule(rule->type) : nullptr;
  if (type == nullptr) return all;
  if (value->kind != Node::Kind::kList) {
    refuse(field, absl::StrCat("expected a list, got ", config::describe_kind(*value)));
    return all;
  }
  for (size_t i = 0; i < value->items.size(); ++i) {
    Message item(value->items[i], *type, *subject_, config::item_path(path_of(field), i));
    if (item) all.push_back(std::move(item));
  }
  return all;
}

std::string Message::any_type(std::string_view field) const {
  const Node* const value = find(field);
  return value == nullptr || value->kind != Node::Kind::kMap ? "" : type_of_any(*value);
}

Message Message::any(std::string_view field) const {
  const Node* const value = find(field);
  return value == nullptr || value->kind != Node::Kind::kMap ? Message() : any_of(*value, path_of(field));
}

Message Message::any_of(const Node& node, std::string path) const {
  const MessageRule* const type = find_message_rule(type_of_any(node));
  if (type == nullptr) return {};
  const Node* const outer = node.find("@type");
  if (!is_typed_struct(outer->text)) return {node, *type, *subject_, std::move(path)};
  const Node* const value = find_member(node, "value");
  static const Node nothing = [] {
    Node empty;
    empty.kind = Node::Kind::kMap;
    return empty;
  }();
  return {value != nullptr ? *value : nothing, *type, *subject_, path + ".value"};
}

std::vector<std::pair<std::string, Message>> Message::any_map(std::string_view field) const {
  std::vector<std::pair<std::string, Message>> all;
  const Node* const value = find(field);
  if (value == nullptr || value->kind != Node::Kind::kMap) return all;
  for (size_t i = 0; i < value->keys.size(); ++i) {
    const std::string& name = value->keys[i].text;
    const std::string path = absl::StrCat(path_of(field), ".", name);
    if (value->items[i].kind != Node::Kind::kMap) continue;
    Message item = any_of(value->items[i], path);
    if (item) {
      all.emplace_back(name, std::move(item));
      continue;
    }
    refuse(absl::StrCat(field, ".", name),
           absl::StrCat("there is no counterpart of ", config::in_quotes(type_of_any(value->items[i]))));
  }
  return all;
}

}  // namespace sluice::envoy
