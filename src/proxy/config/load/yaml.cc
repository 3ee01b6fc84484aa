#include "proxy/config/load/yaml.h"

#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <istream>
#include <streambuf>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "proxy/common/suggestions.h"
#include "proxy/config/load/variables.h"

namespace sluice::config {
namespace {

// Thrown through the parser, which cannot be stopped otherwise; never leaves this file.
struct Refused {
  Mark mark;
  std::string message;
};

Mark mark_of(const YAML::Mark& mark, uint32_t file) {
  if (mark.is_null()) return Mark{.file = file};
  return Mark{
      .file = file, .line = static_cast<uint32_t>(mark.line) + 1, .column = static_cast<uint32_t>(mark.column) + 1};
}

constexpr std::string_view kMergeKey = "<<";

// What a value and all in it amount to.
struct Extent {
  size_t nodes = 0;  // keys and values
  size_t bytes = 0;  // of their texts
  size_t depth = 0;  // containers inside each other
};

// Stops soon after `max_nodes`, since an alias can name much more than may be copied.
void measure(const Node& node, size_t depth, size_t max_nodes, Extent& extent) {
  ++extent.nodes;
  extent.bytes += node.text.size();
  if (node.kind == Node::Kind::kList || node.kind == Node::Kind::kMap) extent.depth = std::max(extent.depth, ++depth);
  for (const Node& key : node.keys) {
    ++extent.nodes;
    extent.bytes += key.text.size();
  }
  for (const Node& item : node.items) {
    if (extent.nodes > max_nodes) return;
    measure(item, depth, max_nodes, extent);
  }
}

// Moves the keys of a map at `<<` into the map around it, which may not have them.
class Merger {
 public:
  explicit Merger(Node& map) : map_(map) {}

  void merge() {
    std::vector<Node> from;
    size_t kept = 0;
    for (size_t i = 0; i < map_.keys.size(); ++i) {
      if (map_.keys[i].text == kMergeKey) {
        from.push_back(std::move(map_.items[i]));
        continue;
      }
      if (kept != i) {
        map_.keys[kept] = std::move(map_.keys[i]);
        map_.items[kept] = std::move(map_.items[i]);
      }
      ++kept;
    }
    if (from.empty()) return;
    map_.keys.resize(kept);
    map_.items.resize(kept);
    for (const Node& key : map_.keys) known_.insert(key.text);
    for (Node& value : from) {
      if (value.kind != Node::Kind::kList) {
        take(value);
        continue;
      }
      for (Node& each : value.items) take(each);
    }
  }

 private:
  void take(Node& from) {
    if (from.kind != Node::Kind::kMap) {
      throw Refused{from.mark,
                    absl::StrCat("<<: expected a map, or a list of maps, as in <<: *name, got ", describe_kind(from))};
    }
    for (size_t i = 0; i < from.keys.size(); ++i) {
      if (!known_.insert(from.keys[i].text).second) continue;
      map_.keys.push_back(std::move(from.keys[i]));
      map_.items.push_back(std::move(from.items[i]));
    }
  }

  Node& map_;
  std::unordered_set<std::string> known_;
};

void resolve_merge_keys(Node& node) {
  for (Node& item : node.items) resolve_merge_keys(item);
  if (node.kind == Node::Kind::kMap) Merger(node).merge();
}

// Builds the tree. Open containers are on a stack, and move into their parent when they close.
class TreeBuilder : public YAML::EventHandler {
 public:
  TreeBuilder(uint32_t file, YamlBudget& budget, Node& root, Report& report)
      : file_(file), budget_(budget), root_(root), report_(report) {}

  void OnDocumentStart(const YAML::Mark&) override {}
  void OnDocumentEnd() override {}

  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    remember(anchor);
    Node node;
    node.mark = mark_of(mark, file_);
    add(std::move(node));
  }

  void OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    const Node* original = find_anchor(anchor);
    if (original == nullptr)
      throw Refused{mark_of(mark, file_), "this alias (*name) is inside the value that it names"};
    Extent extent;
    measure(*original, open_.size(), budget_.nodes, extent);
    if (extent.nodes > budget_.nodes) {
      throw Refused{mark_of(mark, file_),
                    absl::StrCat("with the value that this alias (*name) copies, the configuration has more than ",
                                 kMaxYamlNodes, " keys and values")};
    }
    if (extent.bytes > budget_.bytes) {
      throw Refused{mark_of(mark, file_),
                    absl::StrCat("with the value that this alias (*name) copies, the configuration is larger than ",
                                 kMaxYamlBytes >> 20, " MiB")};
    }
    if (extent.depth > budget_.depth) {
      throw Refused{mark_of(mark, file_),
                    absl::StrCat("with the value that this alias (*name) copies, the file is nested more "
                                 "than ",
                                 budget_.depth, " deep")};
    }
    budget_.nodes -= extent.nodes - 1;  // add() counts the node itself
    budget_.bytes -= extent.bytes;
    add(Node(*original));
  }

  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    check_tag(mark, tag);
    remember(anchor);
    Node node;
    node.kind = Node::Kind::kScalar;
    node.mark = mark_of(mark, file_);
    node.text = value;
    const bool is_key = !open_.empty() && next_in(open_.back()).is_key;
    if (!is_key && budget_.has_variables) expand(node);
    add(std::move(node));
  }

  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    open(Node::Kind::kList, mark, tag, anchor);
  }
  void OnSequenceEnd() override { close(); }

  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    open(Node::Kind::kMap, mark, tag, anchor);
  }
  void OnMapEnd() override { close(); }

 private:
  void check_tag(const YAML::Mark& mark, const std::string& tag) const {
    // The parser's tag is "?" for plain values and "!" for quoted ones.
    if (tag.empty() || tag == "?" || tag == "!") return;
    throw Refused{mark_of(mark, file_), absl::StrCat("tags are not supported: remove ", in_quotes(tag))};
  }

  void expand(Node& node) {
    absl::StatusOr<std::string> expanded = expand_variables(node.text, budget_.bytes);
    if (absl::IsResourceExhausted(expanded.status())) {
      throw Refused{node.mark, std::string(expanded.status().message())};
    }
    node.unusable = !expanded.ok();
    if (node.unusable) return report_.error_at(node.mark, "", expanded.status().message());
    node.text = *std::move(expanded);
  }

  // A place in an open container: the index of an item, or of a key. A key is never a container.
  struct Step {
    uint32_t index;
    bool is_key;
  };

  // The place of the next value in the open container.
  static Step next_in(const Node& container) {
    const bool is_key = container.kind == Node::Kind::kMap && container.keys.size() == container.items.size();
    return {static_cast<uint32_t>(container.items.size()), is_key};
  }

  // Remembers where the next value will be. Values have no stable address before the tree is complete, and a copy of
  // each would be counted, whether or not it is used.
  void remember(YAML::anchor_t anchor) {
    if (anchor == YAML::NullAnchor) return;
    std::vector<Step>& steps = anchors_[anchor];
    steps.clear();
    for (const Node& container : open_) steps.push_back(next_in(container));
  }

  // The value of an anchor that the parser has seen; nullptr if it is still open.
  const Node* find_anchor(YAML::anchor_t anchor) const {
    const std::vector<Step>& steps = anchors_.at(anchor);
    if (steps.empty()) return nullptr;  // the document itself
    const Node* node = &open_.front();
    for (size_t depth = 0; depth < steps.size(); ++depth) {
      const std::vector<Node>& values = steps[depth].is_key ? node->keys : node->items;
      if (steps[depth].index < values.size()) {
        node = &values[steps[depth].index];
      } else if (depth + 1 < steps.size()) {
        node = &open_[depth + 1];
      } else {
        return nullptr;
      }
    }
    return node;
  }

  void open(Node::Kind kind, const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor) {
    check_tag(mark, tag);
    remember(anchor);
    if (open_.size() == budget_.depth) {
      throw Refused{mark_of(mark, file_), absl::StrCat("nested more than ", budget_.depth, " deep")};
    }
    Node node;
    node.kind = kind;
    node.mark = mark_of(mark, file_);
    open_.push_back(std::move(node));
  }

  void close() {
    Node node = std::move(open_.back());
    open_.pop_back();
    if (node.kind == Node::Kind::kMap) report_duplicates(node);
    add(std::move(node));
  }

  void add(Node node) {
    if (budget_.nodes == 0) {
      throw Refused{node.mark, absl::StrCat("more than ", kMaxYamlNodes, " keys and values")};
    }
    --budget_.nodes;
    if (open_.empty()) {
      root_ = std::move(node);
      return;
    }
    Node& parent = open_.back();
    if (parent.kind == Node::Kind::kMap && parent.keys.size() == parent.items.size()) {
      if (node.kind != Node::Kind::kScalar) throw Refused{node.mark, "a key must be a plain word"};
      parent.keys.push_back(std::move(node));
      return;
    }
    // The parser positions an absent value at the next token, but a reader expects the position of its key.
    if (parent.kind == Node::Kind::kMap && node.kind == Node::Kind::kNull) node.mark = parent.keys.back().mark;
    parent.items.push_back(std::move(node));
  }

  void report_duplicates(const Node& map) {
    std::unordered_map<std::string_view, Mark> seen;
    for (const Node& key : map.keys) {
      const auto [first, inserted] = seen.emplace(key.text, key.mark);
      if (inserted) continue;
      report_.error_at(key.mark, "",
                       absl::StrFormat("duplicate key %s: it is already at %d:%d", in_quotes(key.text),
                                       first->second.line, first->second.column));
    }
  }

  const uint32_t file_;
  YamlBudget& budget_;
  Node& root_;
  Report& report_;
  std::vector<Node> open_;
  std::unordered_map<YAML::anchor_t, std::vector<Step>> anchors_;
};

// Reads the caller's bytes in place.
class ViewBuffer : public std::streambuf {
 public:
  explicit ViewBuffer(std::string_view text) {
    char* begin = const_cast<char*>(text.data());  // streambuf takes no const pointer; nothing writes to it
    setg(begin, begin, begin + text.size());
  }
};

// The parser treats 0x04 as the end of the file and guesses UTF-16 from NULs. YAML allows no such control characters.
bool refuse_control_characters(std::string_view text, uint32_t file, Report& report) {
  Mark mark{.file = file, .line = 1, .column = 1};
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if ((byte < 0x20 && c != '\n' && c != '\t' && c != '\r') || byte == 0x7f) {
      report.error_at(mark, "", absl::StrFormat("control character 0x%02x: the file must be UTF-8 text", byte));
      return true;
    }
    mark.column = c == '\n' ? 1 : mark.column + 1;
    mark.line += c == '\n' ? 1 : 0;
  }
  return false;
}

// A hint for common mistakes in YAML, which the parser's own message does not explain.
std::string_view hint_for(std::string_view message, std::string_view text, std::string_view line) {
  if (absl::StrContains(message, "anchor") || absl::StrContains(message, "alias")) {
    return "; a value that begins with * or & needs quotes, as in \"*.example.com\"";
  }
  // The brace of a variable opens a map, whose end can be missing far behind.
  const bool no_end = message == YAML::ErrorMsg::END_OF_SEQ_FLOW || message == YAML::ErrorMsg::END_OF_MAP_FLOW;
  if (absl::StrContains(no_end ? text : line, "${")) {
    return "; within [ ] and { } a value with ${NAME} needs quotes, as in \"${NAME}\"";
  }
  if (absl::StrContains(line, "::")) return "; an IPv6 address needs quotes, as in \"[::1]:8080\"";
  if (absl::StrContains(line, '\t')) return "; indent with spaces, YAML takes no tabs";
  // The parser found something else where the next item or key has to begin.
  if (message == YAML::ErrorMsg::END_OF_SEQ || message == YAML::ErrorMsg::END_OF_MAP) {
    return "; this line is indented differently from those that it belongs to: keys of one map, and items of one list, "
           "begin in the same column";
  }
  return "";
}

std::string_view line_at(std::string_view text, uint32_t number) {
  for (; number > 1 && !text.empty(); --number) {
    const size_t end = text.find('\n');
    text = end == std::string_view::npos ? "" : text.substr(end + 1);
  }
  return text.substr(0, text.find('\n'));
}

}  // namespace

const Node* Node::find(std::string_view key) const {
  for (size_t i = 0; i < keys.size(); ++i) {
    if (keys[i].text == key) return &items[i];
  }
  return nullptr;
}

std::string describe_kind(const Node& node) {
  switch (node.kind) {
    case Node::Kind::kScalar:
      return in_quotes(node.text);
    case Node::Kind::kList:
      return "a list";
    case Node::Kind::kMap:
      return "a map";
    case Node::Kind::kNull:
      break;
  }
  return "nothing";
}

bool parse_yaml(std::string_view text, uint32_t file, YamlBudget& budget, Node& root, Report& report) {
  if (text.size() > budget.bytes) {
    const size_t mib = kMaxYamlBytes >> 20;
    report.error_at({.file = file}, "",
                    file == 0 ? absl::StrCat("the file is larger than ", mib, " MiB")
                              : absl::StrCat("with this file the configuration is larger than ", mib, " MiB"));
    return false;
  }
  budget.bytes -= text.size();
  if (refuse_control_characters(text, file, report)) return false;
  ViewBuffer buffer(text);
  std::istream stream(&buffer);
  TreeBuilder builder(file, budget, root, report);
  try {
    YAML::Parser parser(stream);
    if (!parser.HandleNextDocument(builder)) return true;  // empty: root stays null
    Node second;
    TreeBuilder second_builder(file, budget, second, report);
    if (parser.HandleNextDocument(second_builder)) {
      report.error_at(second.mark, "", "a second YAML document begins here: a configuration is one");
      return false;
    }
    resolve_merge_keys(root);
    return true;
  } catch (const Refused& refused) {
    report.error_at(refused.mark, "", refused.message);
  } catch (const YAML::Exception& error) {
    const Mark mark = mark_of(error.mark, file);
    report.error_at(mark, "",
                    absl::StrCat("YAML syntax: ", error.msg, hint_for(error.msg, text, line_at(text, mark.line))));
  }
  return false;
}

}  // namespace sluice::config
