#include "proxy/common/json.h"

#include <utility>

namespace sluice {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }

constexpr uint32_t kSurrogates = 0xd800, kLowSurrogates = 0xdc00, kSurrogatesEnd = 0xe000;

}  // namespace

bool JsonText::read(std::string_view text) {
  values_.clear();
  at_ = 0;
  error_ = nullptr;
  if (text.size() > kMaxBytes) return fail("it is too long");
  text_.assign(text);
  skip_blanks();
  if (!read_value({}, 0)) return false;
  skip_blanks();
  return at_ == text_.size() || fail("there is text after the value");
}

const JsonValue* JsonText::member(const JsonValue& object, std::string_view name) const {
  if (object.kind != JsonValue::Kind::kObject) return nullptr;
  const JsonValue* value = first(object);
  while (value && value->name != name) value = next(*value);
  return value;
}

bool JsonText::fail(const char* error) {
  if (!error_) error_ = error;
  return false;
}

void JsonText::skip_blanks() {
  while (at_ < text_.size() && std::string_view(" \t\r\n").find(text_[at_]) != std::string_view::npos) ++at_;
}

bool JsonText::take(char c) {
  if (at_ == text_.size() || text_[at_] != c) return false;
  ++at_;
  return true;
}

bool JsonText::read_value(std::string_view name, size_t depth) {
  using Kind = JsonValue::Kind;
  if (values_.size() == kMaxValues) return fail("there are too many values");
  if (depth > kMaxDepth) return fail("it is nested too deeply");
  if (at_ == text_.size()) return fail("a value is missing");
  const auto index = static_cast<uint32_t>(values_.size());
  values_.emplace_back().name = name;
  const auto is = [&](Kind kind) {
    values_[index].kind = kind;
    return true;
  };
  std::string_view text;
  switch (text_[at_]) {
    case '{':
      return is(Kind::kObject) && read_object(index, depth);
    case '[':
      return is(Kind::kArray) && read_array(index, depth);
    case '"':
      if (!read_string(text)) return false;
      values_[index].text = text;
      return is(Kind::kString);
    case 't':
      return is(Kind::kTrue) && read_word("true");
    case 'f':
      return is(Kind::kFalse) && read_word("false");
    case 'n':
      return read_word("null");
    default:
      if (!read_number(text)) return false;
      values_[index].text = text;
      return is(Kind::kNumber);
  }
}

bool JsonText::read_object(uint32_t index, size_t depth) {
  ++at_;
  skip_blanks();
  if (take('}')) return true;
  size_t members = 0;
  for (uint32_t previous = 0;;) {
    if (++members > kMaxMembers) return fail("an object has too many members");
    std::string_view name;
    if (at_ == text_.size() || text_[at_] != '"') return fail("the name of a member is missing");
    if (!read_string(name)) return false;
    if (member(values_[index], name)) return fail("an object has two members with the same name");
    skip_blanks();
    if (!take(':')) return fail("a colon is missing");
    skip_blanks();
    const auto child = static_cast<uint32_t>(values_.size());
    if (!read_value(name, depth + 1)) return false;
    (previous == 0 ? values_[index].first_ : values_[previous].next_) = child;
    previous = child;
    skip_blanks();
    if (take('}')) return true;
    if (!take(',')) return fail("a comma is missing");
    skip_blanks();
  }
}

bool JsonText::read_array(uint32_t index, size_t depth) {
  ++at_;
  skip_blanks();
  if (take(']')) return true;
  for (uint32_t previous = 0;;) {
    const auto child = static_cast<uint32_t>(values_.size());
    if (!read_value({}, depth + 1)) return false;
    (previous == 0 ? values_[index].first_ : values_[previous].next_) = child;
    previous = child;
    skip_blanks();
    if (take(']')) return true;
    if (!take(',')) return fail("a comma is missing");
    skip_blanks();
  }
}

bool JsonText::read_string(std::string_view& text) {
  const size_t from = ++at_;
  size_t to = from;
  while (at_ < text_.size()) {
    const auto byte = static_cast<unsigned char>(text_[at_]);
    if (byte == '"') {
      ++at_;
      text = std::string_view(text_).substr(from, to - from);
      return true;
    }
    if (byte < ' ') return fail("a string has a control character");
    if (byte == '\\') {
      ++at_;
      if (!read_escape(to)) return false;
    } else if (byte < 0x80) {
      text_[to++] = text_[at_++];
    } else if (!read_utf8(to)) {
      return false;
    }
  }
  return fail("a string is not terminated");
}

bool JsonText::read_escape(size_t& to) {
  constexpr std::string_view kWritten = "\"\\/bfnrt", kMeant = "\"\\/\b\f\n\r\t";
  if (at_ == text_.size()) return fail("a string is not terminated");
  const char c = text_[at_++];
  if (const size_t found = kWritten.find(c); found != std::string_view::npos) {
    text_[to++] = kMeant[found];
    return true;
  }
  uint32_t code = 0;
  if (c != 'u' || !read_hex4(code)) return fail("a string has an invalid escape");
  if (code >= kSurrogates && code < kSurrogatesEnd) {
    uint32_t low = 0;
    if (code >= kLowSurrogates || !take('\\') || !take('u') || !read_hex4(low) || low < kLowSurrogates ||
        low >= kSurrogatesEnd) {
      return fail("a string has a lone surrogate");
    }
    code = 0x10000 + ((code - kSurrogates) << 10) + (low - kLowSurrogates);
  }
  write_utf8(code, to);
  return true;
}

bool JsonText::read_hex4(uint32_t& unit) {
  if (text_.size() - at_ < 4) return false;
  unit = 0;
  for (const size_t end = at_ + 4; at_ < end; ++at_) {
    const char c = text_[at_];
    const int digit = is_digit(c)            ? c - '0'
                      : c >= 'a' && c <= 'f' ? c - 'a' + 10
                      : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                             : -1;
    if (digit < 0) return false;
    unit = unit << 4 | static_cast<uint32_t>(digit);
  }
  return true;
}

void JsonText::write_utf8(uint32_t code, size_t& to) {
  const auto write = [&](uint32_t byte) { text_[to++] = static_cast<char>(byte); };
  if (code < 0x80) return write(code);
  if (code < 0x800) {
    write(0xc0 | code >> 6);
  } else if (code < 0x10000) {
    write(0xe0 | code >> 12);
    write(0x80 | (code >> 6 & 0x3f));
  } else {
    write(0xf0 | code >> 18);
    write(0x80 | (code >> 12 & 0x3f));
    write(0x80 | (code >> 6 & 0x3f));
  }
  write(0x80 | (code & 0x3f));
}

// One character that is not ASCII, in its shortest form (RFC 3629 section 3).
bool JsonText::read_utf8(size_t& to) {
  const auto lead = static_cast<unsigned char>(text_[at_]);
  const size_t bytes = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
  if (lead < 0xc2 || lead > 0xf4 || text_.size() - at_ < bytes) return fail("a string is not UTF-8");
  uint32_t code = lead & (0xffu >> (bytes + 1));
  for (size_t i = 1; i < bytes; ++i) {
    const auto byte = static_cast<unsigned char>(text_[at_ + i]);
    if ((byte & 0xc0) != 0x80) return fail("a string is not UTF-8");
    code = code << 6 | (byte & 0x3fu);
  }
  const bool shortest = code >= (bytes == 2 ? 0x80u : bytes == 3 ? 0x800u : 0x10000u);
  if (!shortest || code > 0x10ffff || (code >= kSurrogates && code < kSurrogatesEnd)) {
    return fail("a string is not UTF-8");
  }
  at_ += bytes;
  write_utf8(code, to);
  return true;
}

bool JsonText::read_number(std::string_view& text) {
  const size_t from = at_;
  (void)take('-');
  if (!take('0') && !read_digits()) return fail("a value is missing");
  if (take('.') && !read_digits()) return fail("a number has no digits after its decimal point");
  if (take('e') || take('E')) {
    (void)(take('+') || take('-'));
    if (!read_digits()) return fail("a number has no digits in its exponent");
  }
  text = std::string_view(text_).substr(from, at_ - from);
  return true;
}

bool JsonText::read_digits() {
  const size_t from = at_;
  while (at_ < text_.size() && is_digit(text_[at_])) ++at_;
  return at_ > from;
}

bool JsonText::read_word(std::string_view word) {
  if (std::string_view(text_).substr(at_, word.size()) != word) return fail("a value is missing");
  at_ += word.size();
  return true;
}

}  // namespace sluice
