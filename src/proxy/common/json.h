#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace sluice {

/// A value in a JsonText.
struct JsonValue {
  enum class Kind : uint8_t { kNull, kTrue, kFalse, kNumber, kString, kArray, kObject };

  Kind kind = Kind::kNull;
  std::string_view name = {};  ///< The name of a member of an object; else empty.
  std::string_view text = {};  ///< A string without its escapes, or a number as written.

 private:
  friend class JsonText;
  uint32_t first_ = 0;  // Index of the first value inside this one; 0: none.
  uint32_t next_ = 0;   // Index of the next sibling; 0: none.
};

/// A strict JSON reader (RFC 8259) for untrusted text. It refuses everything that two readers could interpret
/// differently: there is one value and nothing after it, names within an object are distinct, strings are UTF-8 without
/// control characters or lone surrogates, and depth and size are bounded. The next text reuses its memory.
///
///     JsonText json;
///     if (!json.read(R"({"sub":"me"})")) return refused(json.error());
///     const JsonValue* subject = json.member(json.root(), "sub");  // ->text is "me"
class JsonText {
 public:
  JsonText() = default;
  JsonText(const JsonText&) = delete;
  JsonText& operator=(const JsonText&) = delete;

  static constexpr size_t kMaxBytes = size_t{1} << 20;
  static constexpr size_t kMaxValues = 4096;
  static constexpr size_t kMaxMembers = 256;  ///< Limit for each object.
  static constexpr size_t kMaxDepth = 16;

  /// Reads `text`, which is copied. Returns false if the text is refused; error() then gives the reason. Either way the
  /// values of the previous text are gone.
  bool read(std::string_view text);
  /// The reason why read() failed, and the byte offset at which it stopped.
  const char* error() const { return error_; }
  size_t error_offset() const { return at_; }

  // Valid after a successful read(), until the next one.
  const JsonValue& root() const { return values_.front(); }
  /// The first value inside an array or object, and the value that follows a sibling; null if there is none.
  const JsonValue* first(const JsonValue& of) const { return at_index(of.first_); }
  const JsonValue* next(const JsonValue& after) const { return at_index(after.next_); }
  /// The member of `object` named `name`; null if there is none, or if `object` is not an object.
  const JsonValue* member(const JsonValue& object, std::string_view name) const;

 private:
  const JsonValue* at_index(uint32_t index) const { return index == 0 ? nullptr : &values_[index]; }
  bool fail(const char* error);
  void skip_blanks();
  bool take(char c);
  bool read_value(std::string_view name, size_t depth);
  bool read_object(uint32_t index, size_t depth);
  bool read_array(uint32_t index, size_t depth);
  bool read_string(std::string_view& text);
  bool read_escape(size_t& to);
  bool read_hex4(uint32_t& unit);
  bool read_utf8(size_t& to);
  bool read_number(std::string_view& text);
  bool read_digits();
  bool read_word(std::string_view word);
  void write_utf8(uint32_t code, size_t& to);

  std::string text_;  // Unescaped in place: a string only becomes shorter.
  std::vector<JsonValue> values_;
  size_t at_ = 0;
  const char* error_ = nullptr;
};

}  // namespace sluice
