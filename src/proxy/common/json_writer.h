#pragma once

#include <concepts>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace sluice {

/// Writes JSON (RFC 8259), indented for people.
///
///     JsonWriter json;
///     json.begin_object().member("name", "a").member("count", 3).key("list").begin_array();
///     json.value("x").end_array().end_object();
///     respond(std::move(json).text());
class JsonWriter {
 public:
  JsonWriter& begin_object() { return open('{'); }
  JsonWriter& end_object() { return close('}'); }
  JsonWriter& begin_array() { return open('['); }
  JsonWriter& end_array() { return close(']'); }
  /// The name of the member whose value follows.
  JsonWriter& key(std::string_view name);
  /// Control characters are escaped, and bytes that are not UTF-8 replaced.
  JsonWriter& value(std::string_view text);
  JsonWriter& value(const char* text) { return value(std::string_view(text)); }
  JsonWriter& value(bool truth);
  template <std::integral T>
    requires(!std::same_as<T, bool>)
  JsonWriter& value(T number) {
    return raw(std::to_string(number));
  }
  JsonWriter& value(double number);
  /// A number as it is to be written. Precondition: it is one in JSON.
  JsonWriter& number(std::string_view text) { return raw(text); }
  JsonWriter& null() { return raw("null"); }
  template <class T>
  JsonWriter& member(std::string_view name, const T& its_value) {
    return key(name).value(its_value);
  }

  /// The text, with a newline at its end. Precondition: all objects and arrays are closed.
  std::string text() &&;

 private:
  JsonWriter& open(char bracket);
  JsonWriter& close(char bracket);
  JsonWriter& raw(std::string_view text);
  void begin_value();
  void new_line();

  std::string out_;
  std::vector<bool> empty_;  // For each open bracket: whether nothing follows it yet.
  bool after_key_ = false;
};

}  // namespace sluice
