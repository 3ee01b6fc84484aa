#include "proxy/convert/nginx/directive.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "proxy/common/suggestions.h"

namespace sluice::convert::nginx {
namespace {

bool is_space(char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; }

// One character with the meaning of its escape, as nginx reads it; other escapes keep their backslash.
bool is_escape(char c) { return c == '"' || c == '\'' || c == '\\' || c == 't' || c == 'r' || c == 'n'; }
char escaped(char c) { return c == 't' ? '\t' : c == 'r' ? '\r' : c == 'n' ? '\n' : c; }

struct Token {
  enum class Kind : uint8_t { kWord, kOpen, kClose, kEnd, kEndOfFile };
  Kind kind = Kind::kEndOfFile;
  std::string text;
  config::Mark mark;
};

class Tokens {
 public:
  Tokens(std::string_view text, uint32_t file) : text_(text), mark_{.file = file, .line = 1, .column = 1} {}

  Token next() {
    skip_space();
    Token token{.mark = mark_};
    if (at_ == text_.size()) return token;
    switch (text_[at_]) {
      case ';':
        return take(std::move(token), Token::Kind::kEnd);
      case '{':
        return take(std::move(token), Token::Kind::kOpen);
      case '}':
        return take(std::move(token), Token::Kind::kClose);
      default:
        token.kind = Token::Kind::kWord;
        read_word(token.text);
        return token;
    }
  }
  // Skips a block in another language, such as Lua's: all until its closing bracket.
  void skip_block() {
    for (int depth = 1; at_ < text_.size() && depth > 0; step()) depth += (text_[at_] == '{') - (text_[at_] == '}');
  }
  // What is wrong with a word, if something is.
  std::string_view error() const { return error_; }

 private:
  char step() {
    const char c = text_[at_++];
    c == '\n' ? (++mark_.line, mark_.column = 1) : ++mark_.column;
    return c;
  }
  Token take(Token token, Token::Kind kind) {
    step();
    token.kind = kind;
    return token;
  }
  void skip_space() {
    while (at_ < text_.size()) {
      if (text_[at_] == '#') {
        while (at_ < text_.size() && text_[at_] != '\n') step();
      } else if (is_space(text_[at_])) {
        step();
      } else {
        return;
      }
    }
  }
  void read_word(std::string& word) {
    const char first = text_[at_];
    if (first == '"' || first == '\'') return read_quoted(word, step());
    bool variable = false;  // In ${...}, whose brackets are none of a block.
    while (at_ < text_.size()) {
      const char c = text_[at_];
      if (c == '{' && word.ends_with('$')) {
        variable = true;
      } else if (c == '}' && variable) {
        variable = false;
      } else if (is_space(c) || c == ';' || c == '{') {
        return;
      }
      read_character(word);
    }
  }
  void read_quoted(std::string& word, char quote) {
    while (at_ < text_.size()) {
      if (text_[at_] == quote) {
        step();
        const bool ends =
            at_ == text_.size() || is_space(text_[at_]) || text_[at_] == ';' || text_[at_] == '{' || text_[at_] == ')';
        if (!ends) error_ = "expected a space or `;` behind a quoted text";
        return;
      }
      read_character(word);
    }
    error_ = "a quoted text does not end";
  }
  void read_character(std::string& word) {
    const char c = step();
    if (c != '\\' || at_ == text_.size()) {
      word += c;
    } else if (is_escape(text_[at_])) {
      word += escaped(step());
    } else {
      word += c;
      word += step();
    }
  }

  std::string_view text_;
  size_t at_ = 0;
  config::Mark mark_;
  std::string_view error_;
};

class Parser {
 public:
  Parser(std::string_view main_file, const Disk& disk, ParsedFiles& to) : main_(main_file), disk_(disk), to_(to) {}

  // Appends what the file has to `block`.
  bool read_file(const std::string& path, std::vector<Directive>& block, size_t depth, size_t includes) {
    const absl::StatusOr<std::string> text = disk_.read(path);
    if (!text.ok()) return fail({}, text.status().message());
    const auto file = static_cast<uint32_t>(to_.files.size());
    to_.files.push_back(path);
    const config::Mark start{.file = file, .line = 1, .column = 1};
    if (to_.files.size() > kMaxFiles) return fail(start, absl::StrCat("expected up to ", kMaxFiles, " files"));
    bytes_ += text->size();
    if (bytes_ > kMaxBytes) return fail(start, absl::StrCat("expected files of up to ", kMaxBytes, " bytes together"));
    Tokens tokens(*text, file);
    return read_block(tokens, block, depth, includes, /*is_file=*/true);
  }

 private:
  bool fail(config::Mark mark, std::string_view what) {
    if (!to_.error.empty()) return false;
    to_.error = mark.line == 0 ? std::string(what)
                               : absl::StrCat(to_.files[mark.file], ":", mark.line, ":", mark.column, ": ", what);
    return false;
  }

  bool read_block(Tokens& tokens, std::vector<Directive>& block, size_t depth, size_t includes, bool is_file) {
    if (depth > kMaxDepth) return fail(last_, absl::StrCat("expected up to ", kMaxDepth, " blocks inside each other"));
    while (true) {
      const Token token = tokens.next();
      last_ = token.mark;
      if (!tokens.error().empty()) return fail(token.mark, tokens.error());
      switch (token.kind) {
        case Token::Kind::kEndOfFile:
          return is_file || fail(token.mark, "a block does not end: expected `}`");
        case Token::Kind::kClose:
          return !is_file || fail(token.mark, "there is no block that `}` could end");
        case Token::Kind::kOpen:
        case Token::Kind::kEnd:
          return fail(token.mark, "expected the name of a directive");
        case Token::Kind::kWord:
          if (!read_directive(tokens, token, block, depth, includes)) return false;
      }
    }
  }

  bool read_directive(Tokens& tokens, const Token& name, std::vector<Directive>& block, size_t depth, size_t includes) {
    if (++directives_ > kMaxDirectives) {
      return fail(name.mark, absl::StrCat("expected up to ", kMaxDirectives, " directives"));
    }
    Directive made{.name = name.text, .mark = name.mark};
    while (true) {
      Token token = tokens.next();
      if (!tokens.error().empty()) return fail(token.mark, tokens.error());
      if (token.kind == Token::Kind::kWord) {
        made.args.push_back(std::move(token.text));
      } else if (token.kind == Token::Kind::kOpen) {
        made.has_block = true;
        if (made.name.ends_with("_lua_block")) {
          tokens.skip_block();
        } else if (!read_block(tokens, made.block, depth + 1, includes, /*is_file=*/false)) {
          return false;
        }
        break;
      } else if (token.kind == Token::Kind::kEnd) {
        break;
      } else {
        return fail(token.mark, absl::StrCat("expected `;` behind ", config::in_quotes(made.name)));
      }
    }
    if (made.name == "include" && !made.has_block) return include(made, block, depth, includes);
    block.push_back(std::move(made));
    return true;
  }

  bool include(const Directive& include, std::vector<Directive>& block, size_t depth, size_t includes) {
    if (include.args.size() != 1) return fail(include.mark, "expected `include FILE;`");
    if (includes == kMaxIncludeDepth) {
      return fail(include.mark, absl::StrCat("expected up to ", kMaxIncludeDepth, " files that include each other"));
    }
    const std::string path = absolute_path(main_, include.args[0]);
    const bool pattern = path.find_first_of("*?[") != std::string::npos;
    const std::vector<std::string> paths = pattern ? disk_.matches(path) : std::vector<std::string>{path};
    for (const std::string& each : paths) {
      if (read_file(each, block, depth, includes + 1)) continue;
      return fail(include.mark, "the file cannot be included");
    }
    return true;
  }

  const std::string main_;
  const Disk& disk_;
  ParsedFiles& to_;
  size_t bytes_ = 0;
  size_t directives_ = 0;
  config::Mark last_;
};

}  // namespace

std::vector<const Directive*> Directive::all(std::string_view wanted) const {
  std::vector<const Directive*> found;
  for (const Directive& each : block) {
    if (each.name == wanted) found.push_back(&each);
  }
  return found;
}

std::string absolute_path(std::string_view main_file, std::string_view path) {
  if (path.starts_with('/')) return std::string(path);
  const size_t slash = main_file.rfind('/');
  return slash == std::string_view::npos ? std::string(path) : absl::StrCat(main_file.substr(0, slash + 1), path);
}

ParsedFiles parse_files(const std::string& path, const Disk& disk) {
  ParsedFiles made;
  Parser(path, disk, made).read_file(path, made.root.block, 0, 0);
  return made;
}

}  // namespace sluice::convert::nginx
