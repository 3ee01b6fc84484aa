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
  std::string_view name = {};  ///< Of a member of an object.
  std::string_view text = {};  ///< Of a string, without its escapes; of a number, as it is written.

 private:
  friend class JsonText;
  uint32_t first_ = 0;  // Of what is in it, and
  uint32_t next_ = 0;   // the one behind it; 0: none.
};

/// A strict reader of JSON (RFC 8259) for texts that strangers send: what two readers could understand differently is
/// refused. So there is one value and nothing behind it, names within an object differ, strings are UTF-8 without
/// control characters or half surrogates, and depth and size are bounded. Its memory is used again by the next text.
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
  static constexpr size_t kMaxMembers = 256;  ///< Of one object.
  static constexpr size_t kMaxDepth = 16;

  /// False where it is refused. What was read before is gone; `text` is not needed afterwards.
  bool read(std::string_view text);
  /// What is wrong, and how many bytes stand before it.
  const char* error() const { return error_; }
  size_t error_offset() const { return at_; }

  // After read(): views, good until the next one.
  const JsonValue& root() const { return values_.front(); }
  /// The first value in an array or an object, and the one behind a value; null where there is none.
  const JsonValue* first(const JsonValue& of) const { return at_index(of.first_); }
  const JsonValue* next(const JsonValue& after) const { return at_index(after.next_); }
  /// Null where there is none, or `object` is something else.
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

  std::string text_;  // Strings lose their escapes in it: they only become shorter.
  std::vector<JsonValue> values_;
  size_t at_ = 0;
  const char* error_ = nullptr;
};

}  // namespace sluice
