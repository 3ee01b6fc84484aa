#include "proxy/convert/haproxy/section.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "proxy/common/suggestions.h"

namespace sluice::convert::haproxy {
namespace {

bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\r'; }

// The character that a backslash and `c` stand for; nothing if the backslash stands for itself.
std::optional<char> escaped_character(char c) {
  switch (c) {
    case ' ':
    case '\\':
    case '#':
    case '\'':
    case '"':
    case '$':
      return c;
    case 't':
      return '\t';
    case 'r':
      return '\r';
    case 'n':
      return '\n';
    default:
      return std::nullopt;
  }
}

class WordReader {
 public:
  explicit WordReader(std::string_view text) : text_(text) {}

  // Reads the words of the line. Returns what is wrong, or an empty text.
  std::string_view read(std::vector<std::string>& words) {
    while (true) {
      while (at_ < text_.size() && is_blank(text_[at_])) ++at_;
      if (at_ == text_.size() || text_[at_] == '#') return "";
      std::string word;
      if (const std::string_view error = read_word(word); !error.empty()) return error;
      words.push_back(std::move(word));
    }
  }

 private:
  std::string_view read_word(std::string& word) {
    char quote = 0;
    for (; at_ < text_.size(); ++at_) {
      const char c = text_[at_];
      if (quote == 0 && (is_blank(c) || c == '#')) return "";
      if (quote == 0 && (c == '"' || c == '\'')) {
        quote = c;
      } else if (c == quote) {
        quote = 0;
      } else if (c == '\\' && quote != '\'' && at_ + 1 < text_.size()) {
        read_escape(word);
      } else if (quote == '"' && c == '$' && is_variable(text_.substr(at_ + 1))) {
        return "expected no variable of the environment: write its value";
      } else {
        word += c;
      }
    }
    return quote == 0 ? "" : "a quoted text does not end";
  }

  static bool is_variable(std::string_view rest) {
    const char first = rest.empty() ? ' ' : rest.front();
    return first == '{' || first == '_' || absl::ascii_isalpha(static_cast<unsigned char>(first));
  }

  void read_escape(std::string& word) {
    const char next = text_[at_ + 1];
    if (const std::optional<char> c = escaped_character(next)) {
      word += *c;
      ++at_;
    } else if (std::string byte;
               next == 'x' && at_ + 3 < text_.size() && absl::HexStringToBytes(text_.substr(at_ + 2, 2), &byte)) {
      word += byte;
      at_ += 3;
    } else {
      word += '\\';
    }
  }

  std::string_view text_;
  size_t at_ = 0;
};

bool is_section(std::string_view word) {
  constexpr std::string_view kKinds[] = {"global",    "defaults",  "frontend",    "backend",     "listen",
                                         "resolvers", "userlist",  "peers",       "mailers",     "cache",
                                         "program",   "ring",      "http-errors", "log-forward", "fcgi-app",
                                         "traces",    "crt-store", "log-profile"};
  return std::find(std::begin(kKinds), std::end(kKinds), word) != std::end(kKinds);
}

}  // namespace

std::string_view Line::after(std::string_view name) const {
  for (size_t i = 0; i + 1 < words.size(); ++i) {
    if (words[i] == name) return words[i + 1];
  }
  return "";
}

bool Line::has(std::string_view name) const { return std::find(words.begin(), words.end(), name) != words.end(); }

ParsedFile parse_text(std::string_view text, std::string_view name) {
  ParsedFile made;
  const auto fail = [&](uint32_t line, uint32_t column, std::string_view what) {
    made.error = absl::StrCat(name, ":", line, ":", column, ": ", what);
  };
  if (text.size() > kMaxBytes) return fail(1, 1, absl::StrCat("expected up to ", kMaxBytes, " bytes")), made;
  uint32_t number = 0;
  while (!text.empty()) {
    ++number;
    const size_t end = std::min(text.find('\n'), text.size());
    const std::string_view row = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    const auto column = static_cast<uint32_t>(std::min(row.find_first_not_of(" \t"), row.size()) + 1);
    Line line{.mark = {.file = 0, .line = number, .column = column}};
    if (const std::string_view error = WordReader(row).read(line.words); !error.empty())
      return fail(number, column, error), made;
    if (number > kMaxLines) return fail(number, column, absl::StrCat("expected up to ", kMaxLines, " lines")), made;
    if (line.words.empty()) continue;
    if (is_section(line.keyword())) {
      Section section{.kind = line.words[0],
                      .name = std::string(line.word(1)),
                      .from = std::string(line.after("from")),
                      .mark = line.mark};
      if (section.name == "from") section.name.clear();
      made.sections.push_back(std::move(section));
    } else if (made.sections.empty()) {
      return fail(number, column,
                  absl::StrCat("expected a section such as `frontend NAME`, got ", config::in_quotes(line.keyword()))),
             made;
    } else {
      made.sections.back().lines.push_back(std::move(line));
    }
  }
  return made;
}

void report(const Line& line, Severity severity, std::string_view message, Findings& findings) {
  // The first words tell the line from others.
  const size_t most = line.keyword() == "http-request" || line.keyword() == "http-response" ||
                              line.keyword() == "option" || line.keyword() == "tcp-request" ||
                              line.keyword() == "timeout" || line.keyword() == "stats"
                          ? 2
                          : 1;
  std::string kind = line.keyword();
  if (most == 2 && line.words.size() > 1) absl::StrAppend(&kind, " ", line.words[1]);
  const bool named = line.keyword() == "server" || line.keyword() == "acl" || line.keyword() == "use_backend" ||
                     line.keyword() == "bind";
  findings.add({.kind = std::move(kind),
                .name = named ? std::string(line.word(1)) : "",
                .path = "",
                .message = std::string(message),
                .severity = severity,
                .mark = line.mark});
}

}  // namespace sluice::convert::haproxy
