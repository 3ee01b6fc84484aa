#include "proxy/config/model/log_condition.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "proxy/common/suggestions.h"
#include "proxy/config/model/units.h"

namespace sluice::config {

namespace {

using Node = LogCondition::Node;
using Operator = LogCondition::Operator;

constexpr std::string_view kRandom = "random";

// What the value of a number looks like.
enum class NumberForm : uint8_t { kNone, kTime, kBytes };

NumberForm form_of(TextVariable variable) {
  switch (variable) {
    case TextVariable::kDuration:
    case TextVariable::kUpstreamDuration:
    case TextVariable::kConnectDuration:
      return NumberForm::kTime;
    case TextVariable::kBytesIn:
    case TextVariable::kBytesOut:
    case TextVariable::kBytesPinned:
      return NumberForm::kBytes;
    default:
      return NumberForm::kNone;
  }
}

// A number from 0 to 1 with up to six digits behind the point, in millionths.
std::optional<uint32_t> parse_millionths(std::string_view text) {
  constexpr size_t kDigits = 6;
  if (text != "0" && text != "1" && !text.starts_with("0.") && !text.starts_with("1.")) return std::nullopt;
  const std::string_view digits = text.size() > 1 ? text.substr(2) : std::string_view();
  if ((text.size() > 1 && digits.empty()) || digits.size() > kDigits) return std::nullopt;
  uint32_t millionths = 0;
  for (size_t i = 0; i < kDigits; ++i) {
    const char digit = i < digits.size() ? digits[i] : '0';
    if (!absl::ascii_isdigit(static_cast<unsigned char>(digit))) return std::nullopt;
    millionths = millionths * 10 + static_cast<uint32_t>(digit - '0');
  }
  if (text.front() == '1') millionths += Share::kOne;
  return millionths <= Share::kOne ? std::optional(millionths) : std::nullopt;
}

// A time in microseconds: as in other keys, or in microseconds.
absl::StatusOr<uint64_t> parse_time(std::string_view text) {
  uint64_t number = 0;
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error == std::errc{} && std::string_view(rest, text.data() + text.size()) == "us") return number;
  const absl::StatusOr<Duration> duration = parse_duration(text);
  if (!duration.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat("expected a time such as 250us, 5ms, 1s or 2m, got ", in_quotes(text)));
  }
  return milliseconds(*duration) * 1000;
}

absl::StatusOr<uint64_t> parse_plain(std::string_view text) {
  uint64_t number = 0;
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error == std::errc{} && rest == text.data() + text.size()) return number;
  return absl::InvalidArgumentError(absl::StrCat("expected a whole number, got ", in_quotes(text)));
}

absl::StatusOr<uint64_t> parse_number(TextVariable variable, std::string_view text) {
  switch (form_of(variable)) {
    case NumberForm::kTime:
      return parse_time(text);
    case NumberForm::kBytes: {
      const absl::StatusOr<Size> size = parse_size(text);
      if (!size.ok()) return size.status();
      return size->bytes;
    }
    case NumberForm::kNone:
      break;
  }
  return parse_plain(text);
}

struct Token {
  enum class Kind : uint8_t { kEnd, kWord, kText, kOperator, kOpen, kClose, kOther };

  Kind kind = Kind::kEnd;
  std::string_view text = {};  // As it stands; of kText, without its quotes.
  size_t at = 0;               // From 0.
};

// Words are also numbers with units, paths, and fields such as header:x-name.
bool is_of_word(char c) {
  return absl::ascii_isalnum(static_cast<unsigned char>(c)) ||
         std::string_view("_.:/-*+@%?,;~").find(c) != std::string_view::npos;
}

class Lexer {
 public:
  explicit Lexer(std::string_view text) : text_(text) {}

  Token next() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\t' || text_[at_] == '\n')) ++at_;
    if (at_ == text_.size()) return {Token::Kind::kEnd, {}, at_};
    const size_t begin = at_;
    const char c = text_[at_];
    if (is_of_word(c)) {
      while (at_ < text_.size() && is_of_word(text_[at_])) ++at_;
      return token(Token::Kind::kWord, begin);
    }
    if (c == '\'' || c == '"') {
      const size_t end = text_.find(c, begin + 1);
      if (end == std::string_view::npos) {
        at_ = text_.size();
        return token(Token::Kind::kOther, begin);
      }
      at_ = end + 1;
      return {Token::Kind::kText, text_.substr(begin + 1, end - begin - 1), begin};
    }
    ++at_;
    if (c == '(') return token(Token::Kind::kOpen, begin);
    if (c == ')') return token(Token::Kind::kClose, begin);
    if (c != '=' && c != '!' && c != '<' && c != '>') return token(Token::Kind::kOther, begin);
    if (at_ < text_.size() && text_[at_] == '=') ++at_;
    return token(Token::Kind::kOperator, begin);
  }

 private:
  Token token(Token::Kind kind, size_t begin) const { return {kind, text_.substr(begin, at_ - begin), begin}; }

  const std::string_view text_;
  size_t at_ = 0;
};

std::string at_text(const Token& token) { return absl::StrCat("character ", token.at + 1); }

std::string got_text(const Token& token) {
  return token.kind == Token::Kind::kEnd ? "the end" : absl::StrCat(in_quotes(token.text), " (", at_text(token), ")");
}

std::optional<Operator> operator_of(const Token& token) {
  constexpr std::array<std::string_view, 6> kOperators = {"==", "!=", "<", "<=", ">", ">="};
  const auto* const found = std::find(kOperators.begin(), kOperators.end(), token.text);
  if (token.kind != Token::Kind::kOperator || found == kOperators.end()) return std::nullopt;
  return static_cast<Operator>(found - kOperators.begin());
}

// By recursive descent.
class Parser {
 public:
  explicit Parser(std::string_view text) : lexer_(text) { step(); }

  absl::StatusOr<std::vector<Node>> parse() {
    const absl::StatusOr<uint32_t> root = condition(0);
    if (!root.ok()) return root.status();
    if (token_.kind != Token::Kind::kEnd) {
      return absl::InvalidArgumentError(absl::StrCat("expected `and`, `or` or the end, got ", got_text(token_)));
    }
    return std::move(nodes_);
  }

 private:
  using Index = absl::StatusOr<uint32_t>;

  void step() { token_ = lexer_.next(); }
  bool at_word(std::string_view word) const { return token_.kind == Token::Kind::kWord && token_.text == word; }
  uint32_t add(Node node) {
    nodes_.push_back(std::move(node));
    return static_cast<uint32_t>(nodes_.size() - 1);
  }

  template <class Part>
  Index chain(std::string_view word, Node::Kind kind, const Part& part) {
    Index left = part();
    while (left.ok() && at_word(word)) {
      step();
      const Index right = part();
      if (!right.ok()) return right;
      left = add({.kind = kind, .left = *left, .right = *right});
    }
    return left;
  }

  Index condition(size_t depth) {
    return chain("or", Node::Kind::kOr, [&] { return chain("and", Node::Kind::kAnd, [&] { return term(depth); }); });
  }

  Index term(size_t depth) {
    if (depth >= LogCondition::kMaxDepth) {
      return absl::InvalidArgumentError(
          absl::StrCat("expected at most ", LogCondition::kMaxDepth, " parentheses and `not` inside each other"));
    }
    if (at_word("not")) {
      step();
      const Index inner = term(depth + 1);
      return inner.ok() ? Index(add({.kind = Node::Kind::kNot, .left = *inner})) : inner;
    }
    if (token_.kind != Token::Kind::kOpen) return comparison();
    const Token open = token_;
    step();
    const Index inner = condition(depth + 1);
    if (!inner.ok()) return inner;
    if (token_.kind != Token::Kind::kClose) {
      return absl::InvalidArgumentError(
          absl::StrCat("expected `and`, `or` or the `)` of ", at_text(open), ", got ", got_text(token_)));
    }
    step();
    return inner;
  }

  Index comparison() {
    const Token field = token_;
    if (field.kind != Token::Kind::kWord || field.text == "and" || field.text == "or") {
      return absl::InvalidArgumentError(
          absl::StrCat("expected a field such as status, `not` or `(`, got ", got_text(field)));
    }
    Node node;
    if (field.text == kRandom) {
      node.kind = Node::Kind::kRandom;
    } else {
      absl::StatusOr<TextTemplate::Piece> piece = TextTemplate::parse_variable(field.text, TextScope::kLog);
      if (!piece.ok() || piece->variable == TextVariable::kResponseHeader || piece->variable == TextVariable::kTime ||
          piece->variable == TextVariable::kClfTime) {
        return no_such_field(field);
      }
      node.field = *std::move(piece);
      node.kind = is_number(node.field.variable) ? Node::Kind::kNumber : Node::Kind::kText;
    }
    step();
    const std::optional<Operator> found = operator_of(token_);
    if (!found) {
      const bool single = token_.text == "=";
      return absl::InvalidArgumentError(absl::StrCat("expected ==, !=, <, <=, > or >= behind ", in_quotes(field.text),
                                                     ", got ", got_text(token_),
                                                     single ? "; write == to compare" : ""));
    }
    node.comparison = *found;
    if (node.kind == Node::Kind::kText && *found != Operator::kEqual && *found != Operator::kNotEqual) {
      return absl::InvalidArgumentError(
          absl::StrCat(in_quotes(field.text), " is a text: expected == or != behind it, got ", got_text(token_)));
    }
    step();
    return value(std::move(node), field);
  }

  Index value(Node node, const Token& field) {
    const Token value = token_;
    if (value.kind != Token::Kind::kWord && value.kind != Token::Kind::kText) {
      return absl::InvalidArgumentError(
          absl::StrCat("expected a value for ", in_quotes(field.text), ", got ", got_text(value),
                       value.kind == Token::Kind::kOther && (value.text.front() == '\'' || value.text.front() == '"')
                           ? "; a quoted text needs its second quote"
                           : ""));
    }
    if (node.kind == Node::Kind::kText) {
      node.text = std::string(value.text);
    } else if (node.kind == Node::Kind::kRandom) {
      const std::optional<uint32_t> millionths = parse_millionths(value.text);
      if (!millionths) {
        return absl::InvalidArgumentError(
            absl::StrCat("expected a number from 0 to 1 such as 0.01, got ", got_text(value)));
      }
      node.number = *millionths * LogCondition::kRandomOne / Share::kOne;
    } else {
      const absl::StatusOr<uint64_t> number = parse_number(node.field.variable, value.text);
      if (!number.ok()) {
        return absl::InvalidArgumentError(
            absl::StrCat(number.status().message(), " for ", in_quotes(field.text), " (", at_text(value), ")"));
      }
      node.number = *number;
    }
    step();
    return add(std::move(node));
  }

  static absl::Status no_such_field(const Token& field) {
    std::vector<std::string_view> known = {kRandom};
    for (auto variable = static_cast<int>(TextVariable::kClientIp);
         variable < static_cast<int>(TextVariable::kResponseHeader); ++variable) {
      const auto each = static_cast<TextVariable>(variable);
      if (each != TextVariable::kHeader && each != TextVariable::kTime && each != TextVariable::kClfTime) {
        known.push_back(name_of(each));
      }
    }
    return absl::InvalidArgumentError(absl::StrCat("there is no field ", got_text(field),
                                                   did_you_mean(field.text, known),
                                                   "; the fields are the variables of `format`, without times and "
                                                   "response_header, and random"));
  }

  Lexer lexer_;
  Token token_;
  std::vector<Node> nodes_;
};

}  // namespace

absl::StatusOr<LogCondition> LogCondition::parse(std::string_view text) {
  if (text.size() > kMaxBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("expected a text of at most ", kMaxBytes, " bytes, got ", text.size()));
  }
  absl::StatusOr<std::vector<Node>> nodes = Parser(text).parse();
  if (!nodes.ok()) return nodes.status();
  LogCondition condition;
  condition.text_ = std::string(text);
  condition.nodes_ = *std::move(nodes);
  return condition;
}

absl::StatusOr<Share> Share::parse(std::string_view text) {
  const std::optional<uint32_t> millionths = parse_millionths(text);
  if (!millionths || *millionths == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("expected a number above 0, up to 1, such as 0.01, with up to six digits behind the point, got ",
                     in_quotes(text)));
  }
  Share share;
  share.millionths_ = *millionths;
  return share;
}

std::string Share::text() const {
  if (is_all()) return "1";
  std::string digits = absl::StrCat(kOne + millionths_).substr(1);
  digits.erase(digits.find_last_not_of('0') + 1);
  return absl::StrCat("0.", digits);
}

}  // namespace sluice::config
