#include "proxy/envoy/header_changes.h"

#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "proxy/common/suggestions.h"
#include "proxy/common/token.h"
#include "proxy/envoy/format_text.h"

namespace sluice::envoy {
namespace {

using config::Node;

// What belongs to one connection or gives the length of a message, and what `rewrite` changes.
constexpr std::array<std::string_view, 9> kFixedFields = {
    "connection", "content-length",    "host",    "keep-alive",      "te",
    "trailer",    "transfer-encoding", "upgrade", "proxy-connection"};

bool can_change(const Message& owner, std::string_view field, const std::string& name) {
  const std::string lower = absl::AsciiStrToLower(name);
  const bool fixed = std::find(kFixedFields.begin(), kFixedFields.end(), lower) != kFixedFields.end();
  if (http1::is_token(name) && !fixed) return true;
  owner.refuse(field, absl::StrCat("the field ", config::in_quotes(name), " cannot be changed"));
  return false;
}

// `set` or `add`; empty if there is no counterpart.
std::string_view key_of_change(const Message& option) {
  const std::string action = option.text("append_action");
  if (action.empty()) return option.flag("append", true) ? "add" : "set";
  if (action == "APPEND_IF_EXISTS_OR_ADD") return "add";
  if (action == "OVERWRITE_IF_EXISTS_OR_ADD") return "set";
  option.refuse("append_action", absl::StrCat("there is no counterpart of ", config::in_quotes(action)));
  return "";
}

void add_change(const Message& option, Node& changes) {
  const Message header = option.sub("header");
  if (!header) return;
  const std::string name = header.text("key");
  const std::string_view key = key_of_change(option);
  if (key.empty() || !can_change(header, "key", name)) return;
  const TranslatedText value = translate_text(header.text("value"), TextUse::kHeader);
  if (!value.unknown.empty()) {
    return header.refuse("value", absl::StrCat("there is no counterpart of ", config::in_quotes(value.unknown)));
  }
  if (!http1::is_field_text(value.text)) return header.refuse("value", "a value has no control characters");
  if (value.inexact) header.ignore("value", absl::StrCat("its form differs: it is ", config::in_quotes(value.text)));
  if (value.text.empty()) return;
  Node out = map_node();
  put(out, "name", name);
  put(out, key, value.text);
  changes.items.push_back(std::move(out));
}

}  // namespace

void add_header_changes(const Message& owner, std::string_view type, Node& changes) {
  const std::string remove = absl::StrCat(type, "_headers_to_remove");
  for (const std::string& name : owner.texts(remove)) {
    if (!can_change(owner, remove, name)) continue;
    Node out = map_node();
    put(out, "name", name);
    put(out, "remove", "true");
    changes.items.push_back(std::move(out));
  }
  for (const Message& option : owner.subs(absl::StrCat(type, "_headers_to_add"))) add_change(option, changes);
}

std::string take_content_type(Node& changes) {
  for (size_t i = 0; i < changes.items.size(); ++i) {
    const Node* const name = changes.items[i].find("name");
    const Node* const value = changes.items[i].find("set");
    if (name == nullptr || value == nullptr || !absl::EqualsIgnoreCase(name->text, "content-type")) continue;
    std::string type = value->text;
    if (absl::StrContains(type, '%')) continue;
    changes.items.erase(changes.items.begin() + static_cast<std::ptrdiff_t>(i));
    return type;
  }
  return "";
}

}  // namespace sluice::envoy
