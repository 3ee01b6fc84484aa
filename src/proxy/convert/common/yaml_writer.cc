#include "proxy/convert/common/yaml_writer.h"

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "proxy/config/load/variables.h"

namespace sluice::convert {
namespace {

using config::Node;

constexpr size_t kMaxInlineBytes = 100;

// Whether YAML reads the unquoted text back unchanged, also within [ ] and { }.
bool is_unquoted(std::string_view text) {
  if (text.empty() || text.back() == ':' || absl::AsciiStrToLower(text) == "null") return false;
  const auto first = static_cast<unsigned char>(text.front());
  if (!absl::ascii_isalnum(first) && first != '/' && first != '_') return false;
  return std::all_of(text.begin(), text.end(), [](unsigned char c) {
    return absl::ascii_isalnum(c) || std::string_view("_./:@+-").find(static_cast<char>(c)) != std::string_view::npos;
  });
}

std::string written_scalar(std::string_view value) {
  const std::string text = config::escape_variables(value);
  if (is_unquoted(text)) return text;
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      absl::StrAppend(&out, "\\", std::string_view(&c, 1));
    } else if (c == '\n') {
      out += "\\n";
    } else if (absl::ascii_iscntrl(static_cast<unsigned char>(c))) {
      absl::StrAppend(&out, "\\x", absl::Hex(static_cast<unsigned char>(c), absl::kZeroPad2));
    } else {
      out += c;
    }
  }
  return out + "\"";
}

// The value in one line, or longer than `room` if it does not fit.
std::string inline_text(const Node& node, size_t room) {
  switch (node.kind) {
    case Node::Kind::kNull:
      return "null";
    case Node::Kind::kScalar:
      return written_scalar(node.text);
    case Node::Kind::kList:
      if (node.items.empty()) return "[]";
      break;
    case Node::Kind::kMap:
      if (node.items.empty()) return "{}";
      break;
  }
  const bool is_map = node.kind == Node::Kind::kMap;
  std::string out = is_map ? "{ " : "[ ";
  for (size_t i = 0; i < node.items.size() && out.size() <= room; ++i) {
    if (i > 0) out += ", ";
    if (is_map) absl::StrAppend(&out, written_scalar(node.keys[i].text), ": ");
    out += inline_text(node.items[i], room);
  }
  return out + (is_map ? " }" : " ]");
}

// Lists of listeners, routes and so on stay readable in a block.
bool has_inner(const Node& node, int depth) {
  return std::any_of(node.items.begin(), node.items.end(), [&](const Node& item) {
    const bool container = item.kind == Node::Kind::kMap || item.kind == Node::Kind::kList;
    return container && !item.items.empty() && (depth == 0 || has_inner(item, depth - 1));
  });
}

void write_block(const Node& node, size_t indent, bool behind_dash, std::string& out);

void write_member(const Node& value, size_t indent, std::string& out) {
  const size_t room = kMaxInlineBytes > indent ? kMaxInlineBytes - indent : 0;
  const std::string line = inline_text(value, room);
  const bool container = value.kind == Node::Kind::kMap || value.kind == Node::Kind::kList;
  const bool fits =
      line.size() <= room && !has_inner(value, 2) && !(value.kind == Node::Kind::kList && has_inner(value, 1));
  if (!container || value.items.empty() || fits) {
    absl::StrAppend(&out, " ", line, "\n");
    return;
  }
  out += "\n";
  write_block(value, indent + 2, false, out);
}

void write_block(const Node& node, size_t indent, bool behind_dash, std::string& out) {
  for (size_t i = 0; i < node.items.size(); ++i) {
    if (i > 0 || !behind_dash) out.append(indent, ' ');
    if (node.kind == Node::Kind::kMap) {
      absl::StrAppend(&out, written_scalar(node.keys[i].text), ":");
      write_member(node.items[i], indent, out);
      continue;
    }
    const Node& item = node.items[i];
    const bool block = item.kind == Node::Kind::kMap && !item.items.empty() &&
                       (has_inner(item, 0) || inline_text(item, kMaxInlineBytes).size() + indent > kMaxInlineBytes);
    if (block) {
      out += "- ";
      write_block(item, indent + 2, true, out);
    } else {
      absl::StrAppend(&out, "- ", inline_text(item, SIZE_MAX), "\n");
    }
  }
}

}  // namespace

Node scalar_node(std::string_view text) {
  Node node;
  node.kind = Node::Kind::kScalar;
  node.text = text;
  return node;
}

Node list_node(const std::vector<std::string>& texts) {
  Node node;
  node.kind = Node::Kind::kList;
  for (const std::string& text : texts) node.items.push_back(scalar_node(text));
  return node;
}

Node map_node() {
  Node node;
  node.kind = Node::Kind::kMap;
  return node;
}

Node& put(Node& map, std::string_view key, Node value) {
  for (size_t i = 0; i < map.keys.size(); ++i) {
    if (map.keys[i].text == key) return map.items[i] = std::move(value);
  }
  map.keys.push_back(scalar_node(key));
  return map.items.emplace_back(std::move(value));
}

Node& put(Node& map, std::string_view key, std::string_view text) { return put(map, key, scalar_node(text)); }

Node& map_at(Node& map, std::string_view key) {
  for (size_t i = 0; i < map.keys.size(); ++i) {
    if (map.keys[i].text == key) return map.items[i];
  }
  return put(map, key, map_node());
}

Node& list_at(Node& map, std::string_view key) {
  for (size_t i = 0; i < map.keys.size(); ++i) {
    if (map.keys[i].text == key) return map.items[i];
  }
  return put(map, key, list_node());
}

void put_words(Node& map, std::string_view key, const std::vector<std::string>& texts) {
  if (texts.size() == 1) {
    put(map, key, texts.front());
  } else if (!texts.empty()) {
    put(map, key, list_node(texts));
  }
}

void remove_key(Node& map, std::string_view key) {
  for (size_t i = 0; i < map.keys.size(); ++i) {
    if (map.keys[i].text != key) continue;
    map.keys.erase(map.keys.begin() + static_cast<std::ptrdiff_t>(i));
    map.items.erase(map.items.begin() + static_cast<std::ptrdiff_t>(i));
    return;
  }
}

bool same_value(const Node& a, const Node& b) {
  const auto same_list = [](const std::vector<Node>& x, const std::vector<Node>& y) {
    return std::equal(x.begin(), x.end(), y.begin(), y.end(), same_value);
  };
  return a.kind == b.kind && a.text == b.text && same_list(a.keys, b.keys) && same_list(a.items, b.items);
}

std::string write_yaml(const Node& root) {
  std::string out;
  write_block(root, 0, false, out);
  return out;
}

}  // namespace sluice::convert
