#include "proxy/config/load/yaml.h"

#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/yaml.h>

#include <istream>
#include <streambuf>
#include <unordered_map>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "proxy/common/suggestions.h"

namespace sluice::config {
namespace {

// Thrown through the parser, which cannot be stopped otherwise; never leaves this file.
struct Refused {
  Mark mark;
  std::string message;
};

Mark mark_of(const YAML::Mark& mark) {
  if (mark.is_null()) return Mark{};
  return Mark{static_cast<uint32_t>(mark.line) + 1, static_cast<uint32_t>(mark.column) + 1};
}

// Builds the tree. Open containers are on a stack, and move into their parent when they close.
class TreeBuilder : public YAML::EventHandler {
 public:
  TreeBuilder(Node& root, Report& report) : root_(root), report_(report) {}

  void OnDocumentStart(const YAML::Mark&) override {}
  void OnDocumentEnd() override {}

  void OnNull(const YAML::Mark& mark, YAML::anchor_t) override {
    Node node;
    node.mark = mark_of(mark);
    add(std::move(node));
  }

  void OnAlias(const YAML::Mark& mark, YAML::anchor_t) override {
    throw Refused{mark_of(mark), "aliases (*name) are not supported: write the value out"};
  }

  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t, const std::string& value) override {
    check_tag(mark, tag);
    Node node;
    node.kind = Node::Kind::kScalar;
    node.mark = mark_of(mark);
    node.text = value;
    add(std::move(node));
  }

  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t,
                       YAML::EmitterStyle::value) override {
    open(Node::Kind::kList, mark, tag);
  }
  void OnSequenceEnd() override { close(); }

  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t, YAML::EmitterStyle::value) override {
    open(Node::Kind::kMap, mark, tag);
  }
  void OnMapEnd() override { close(); }

 private:
  static void check_tag(const YAML::Mark& mark, const std::string& tag) {
    // The parser's tag is "?" for plain values and "!" for quoted ones.
    if (tag.empty() || tag == "?" || tag == "!") return;
    throw Refused{mark_of(mark), absl::StrCat("tags are not supported: remove ", in_quotes(tag))};
  }

  void open(Node::Kind kind, const YAML::Mark& mark, const std::string& tag) {
    check_tag(mark, tag);
    if (open_.size() == kMaxYamlDepth) {
      throw Refused{mark_of(mark), absl::StrCat("nested more than ", kMaxYamlDepth, " deep")};
    }
    Node node;
    node.kind = kind;
    node.mark = mark_of(mark);
    open_.push_back(std::move(node));
  }

  void close() {
    Node node = std::move(open_.back());
    open_.pop_back();
    if (node.kind == Node::Kind::kMap) report_duplicates(node);
    add(std::move(node));
  }

  void add(Node node) {
    if (++nodes_ > kMaxYamlNodes) {
      throw Refused{node.mark, absl::StrCat("more than ", kMaxYamlNodes, " keys and values")};
    }
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

  Node& root_;
  Report& report_;
  std::vector<Node> open_;
  size_t nodes_ = 0;
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
bool refuse_control_characters(std::string_view text, Report& report) {
  Mark mark{1, 1};
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if ((byte < 0x20 && c != '\n' && c != '\t' && c != '\r') || byte == 0x7f) {
      report.error_at(mark, "", absl::StrFormat("control character 0x%02x: the file must be UTF-8 text", byte));
      return true;
    }
    mark = c == '\n' ? Mark{mark.line + 1, 1} : Mark{mark.line, mark.column + 1};
  }
  return false;
}

// A hint for common mistakes in YAML, which the parser's own message does not explain.
std::string_view hint_for(std::string_view message, std::string_view line) {
  if (absl::StrContains(message, "anchor") || absl::StrContains(message, "alias")) {
    return "; a value that begins with * or & needs quotes, as in \"*.example.com\"";
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

bool parse_yaml(std::string_view text, Node& root, Report& report) {
  if (text.size() > kMaxYamlBytes) {
    report.error("", absl::StrCat("the file is larger than ", kMaxYamlBytes >> 20, " MiB"));
    return false;
  }
  if (refuse_control_characters(text, report)) return false;
  ViewBuffer buffer(text);
  std::istream stream(&buffer);
  TreeBuilder builder(root, report);
  try {
    YAML::Parser parser(stream);
    if (!parser.HandleNextDocument(builder)) return true;  // empty: root stays null
    Node second;
    TreeBuilder second_builder(second, report);
    if (parser.HandleNextDocument(second_builder)) {
      report.error_at(second.mark, "", "a second YAML document begins here: a configuration is one");
      return false;
    }
    return true;
  } catch (const Refused& refused) {
    report.error_at(refused.mark, "", refused.message);
  } catch (const YAML::Exception& error) {
    const Mark mark = mark_of(error.mark);
    report.error_at(mark, "", absl::StrCat("YAML syntax: ", error.msg, hint_for(error.msg, line_at(text, mark.line))));
  }
  return false;
}

}  // namespace sluice::config
