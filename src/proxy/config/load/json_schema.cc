#include "proxy/config/load/json_schema.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "proxy/config/load/schema.h"

namespace sluice::config {
namespace {

constexpr std::string_view kDraft = "http://json-schema.org/draft-07/schema#";

// ---- JSON ----

std::string quote(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      absl::StrAppend(&out, "\\", std::string_view(&c, 1));
    } else if (absl::ascii_iscntrl(static_cast<unsigned char>(c))) {
      absl::StrAppendFormat(&out, "\\u%04x", static_cast<unsigned>(c));
    } else {
      out += c;
    }
  }
  return out + "\"";
}

std::string list(const std::vector<std::string>& items) { return absl::StrCat("[", absl::StrJoin(items, ","), "]"); }

// A JSON object. The values of its members are given as JSON.
class Object {
 public:
  Object& add(std::string_view key, std::string_view json) {
    members_.push_back(absl::StrCat(quote(key), ":", json));
    return *this;
  }
  Object& add(const Object& other) {
    members_.insert(members_.end(), other.members_.begin(), other.members_.end());
    return *this;
  }
  std::string text() const { return absl::StrCat("{", absl::StrJoin(members_, ","), "}"); }

 private:
  std::vector<std::string> members_;
};

// Indents compact JSON: one line for each member and item, but a single line for a list without objects.
std::string indent(std::string_view json) {
  std::string out;
  size_t depth = 0;
  bool quoted = false, in_list = false;
  for (size_t i = 0; i < json.size(); ++i) {
    const char c = json[i];
    if (quoted) {
      out += c;
      if (c == '\\') out += json[++i];
      quoted = c != '"';
      continue;
    }
    const auto new_line = [&] { absl::StrAppend(&out, "\n", std::string(2 * depth, ' ')); };
    if (c == '"') quoted = true;
    if (c == '[') in_list = json.substr(i, json.find(']', i) - i).find('{') == std::string_view::npos;
    const bool opens = c == '{' || (c == '[' && !in_list);
    const bool closes = c == '}' || (c == ']' && !in_list);
    if (c == ']') in_list = false;
    if (closes) {
      --depth;
      if (out.back() != '{') new_line();
    }
    out += c;
    if (opens) {
      ++depth;
      if (json[i + 1] != '}') new_line();
    } else if (c == ',') {
      in_list ? void(out += ' ') : new_line();
    } else if (c == ':') {
      out += ' ';
    }
  }
  return out + "\n";
}

// ---- Scalars ----

Object type(std::string_view name) { return Object().add("type", quote(name)); }

Object any_of(const Object& first, const Object& second) {
  return Object().add("anyOf", list({first.text(), second.text()}));
}

Object integer(const Rules& rules, uint64_t most) {
  return type("integer")
      .add("minimum", absl::StrCat(rules.min))
      .add("maximum", absl::StrCat(std::min(rules.max, most)));
}

Object pattern(std::string_view expression) { return type("string").add("pattern", quote(expression)); }

// Whether YAML reads `word` as a number, as in `1.2`.
bool looks_like_number(std::string_view word) {
  return word.find_first_not_of("0123456789.") == std::string_view::npos;
}

// The loader accepts an unquoted number or boolean where it expects a text.
Object any_text() { return Object().add("type", list({quote("string"), quote("number"), quote("boolean")})); }

/// The schema of a Scalar type: `of(rules)`.
template <class T>
struct ScalarSchema;

template <class T>
concept IsText = std::is_same_v<T, std::string> || requires { TypeName<T>::kName; };

template <class T>
  requires IsText<T>
struct ScalarSchema<T> {
  static Object of(const Rules&) { return any_text(); }
};

template <>
struct ScalarSchema<bool> {
  static Object of(const Rules&) { return type("boolean"); }
};

template <class E>
  requires std::is_enum_v<E>
struct ScalarSchema<E> {
  static Object of(const Rules&) {
    std::vector<std::string> words;
    for (const std::string_view word : EnumWords<E>::kWords) {
      words.push_back(quote(word));
      if (looks_like_number(word)) words.emplace_back(word);
    }
    return Object().add("enum", list(words));
  }
};

template <>
struct ScalarSchema<uint32_t> {
  static Object of(const Rules& rules) { return integer(rules, std::numeric_limits<uint32_t>::max()); }
};

template <>
struct ScalarSchema<AutoCount> {
  static Object of(const Rules& rules) {
    return any_of(Object().add("const", quote("auto")), ScalarSchema<uint32_t>::of(rules));
  }
};

template <>
struct ScalarSchema<Duration> {
  static Object of(const Rules& rules) {
    const Object with_unit = pattern("^(0+|[0-9]+(ms|s|m|h))$");
    return rules.min > 0 ? with_unit : any_of(with_unit, Object().add("const", "0"));
  }
};

template <>
struct ScalarSchema<Size> {
  static Object of(const Rules& rules) {
    return any_of(pattern("^[0-9]+(GiB|MiB|KiB|GB|MB|KB)?$"), integer(rules, kNoMaximum));
  }
};

// A value whose absence means that another key applies.
template <class T>
  requires(!std::is_same_v<std::optional<T>, AutoCount>)
struct ScalarSchema<std::optional<T>> : ScalarSchema<T> {};

// Instead of a number or a word, a text may have the environment variable that holds it.
constexpr std::string_view kVariable = "variable";

Object variable() { return pattern("[$][{]").add("description", quote("An environment variable.")); }

Object or_variable(const Object& schema) {
  return any_of(schema, Object().add("$ref", quote(absl::StrCat("#/definitions/", kVariable))));
}

template <class T>
std::string default_of(const T& value) {
  const std::string text = Scalar<T>::print(value);
  return std::is_same_v<T, bool> || std::is_same_v<T, uint32_t> ? text : quote(text);
}

// ---- Maps and lists ----

template <class T>
Object schema_of(T& value, const Rules& rules);

// The visitor that lists the keys of a map.
class MapSchema {
 public:
  template <class T>
  void field(std::string_view key, T& value, std::string_view help, const Rules& rules = {}) {
    Object schema;
    schema.add("description", quote(absl::StrCat(help, bounds_of<T>(rules), more_help(rules))));
    if constexpr (IsScalar<T>) {
      const bool has_default = !rules.required && !rules.omit_empty && rules.default_text.empty();
      if (has_default) schema.add("default", default_of(value));
    }
    keys_.add(key, schema.add(schema_of(value, rules)).text());
    if (rules.required && rules.unless.empty()) required_.push_back(quote(key));
    if (rules.required && !rules.unless.empty()) choices_.push_back(needs_one(key, rules.unless).text());
  }

  void directive(std::string_view key, std::string_view help) {
    const Object one = type("string");
    const Object all = type("array").add("items", one.text());
    keys_.add(key, Object().add("description", quote(help)).add(any_of(all, one)).text());
    is_part_ = true;
  }

  Object schema() const {
    Object map = type("object");
    // What one file lacks, another may have.
    if (!required_.empty() && !is_part_) map.add("required", list(required_));
    if (!choices_.empty()) map.add("allOf", list(choices_));
    return map.add("properties", keys_.text()).add("additionalProperties", "false");
  }

 private:
  // Bounds in prose, because a schema cannot bound values that have a unit.
  template <class T>
  static std::string bounds_of(const Rules& rules) {
    if constexpr (IsNumber<T>) {
      const auto print = [](uint64_t number) { return Scalar<T>::print(Scalar<T>::from_number(number)); };
      if (rules.max != kNoMaximum) return absl::StrCat(" From ", print(rules.min), " to ", print(rules.max), ".");
      if (rules.min > 1) return absl::StrCat(" At least ", print(rules.min), ".");
    }
    return "";
  }

  static std::string more_help(const Rules& rules) {
    return rules.default_text.empty() ? "" : absl::StrCat(" Default: ", rules.default_text, ".");
  }

  static Object needs_one(std::string_view key, std::string_view other) {
    const auto needs = [](std::string_view name) { return Object().add("required", list({quote(name)})); };
    return any_of(needs(key), needs(other));
  }

  Object keys_;
  std::vector<std::string> required_;
  std::vector<std::string> choices_;
  bool is_part_ = false;
};

template <class T>
Object schema_of_list(const Rules& rules) {
  T item;
  const Object one = schema_of(item, {});
  Object all = type("array");
  if (rules.min > 0) all.add("minItems", absl::StrCat(rules.min));
  all.add("items", one.text());
  return rules.one_word ? any_of(all, one) : all;
}

template <class T>
Object schema_of_map(T& value) {
  MapSchema map;
  describe(map, value);
  if constexpr (requires { shorthand(value); }) return any_of(schema_of(shorthand(value), {}), map.schema());
  return map.schema();
}

template <class T>
Object schema_of(T& value, const Rules& rules) {
  if constexpr (IsText<T>) {
    return ScalarSchema<T>::of(rules);
  } else if constexpr (IsScalar<T>) {
    return or_variable(ScalarSchema<T>::of(rules));
  } else if constexpr (kIsList<T>) {
    return schema_of_list<typename T::value_type>(rules);
  } else if constexpr (requires { value.emplace(); }) {
    return schema_of_map(value.emplace());
  } else {
    return schema_of_map(value);
  }
}

}  // namespace

std::string json_schema() {
  Config config;
  const Object schema = Object()
                            .add("$schema", quote(kDraft))
                            .add("title", quote("Configuration of Sluice"))
                            .add(schema_of(config, {}))
                            .add("definitions", Object().add(kVariable, variable().text()).text());
  return indent(schema.text());
}

}  // namespace sluice::config
