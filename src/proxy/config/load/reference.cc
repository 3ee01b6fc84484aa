#include "proxy/config/load/reference.h"

#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "proxy/config/load/schema.h"

namespace sluice::config {
namespace {

template <class T>
std::string scalar_type(const Rules& rules) {
  const std::string type = Scalar<T>::type();
  if constexpr (IsNumber<T>) {
    const auto print = [](uint64_t number) { return Scalar<T>::print(Scalar<T>::from_number(number)); };
    if (rules.max != kNoMaximum) return absl::StrCat(type, ", ", print(rules.min), " to ", print(rules.max));
    // A minimum of 1 is not worth printing: it only excludes 0.
    if (rules.min > 1) return absl::StrCat(type, ", from ", print(rules.min));
  }
  return type;
}

// The visitor that lists keys.
class KeyLister {
 public:
  KeyLister(std::string prefix, std::vector<KeyInfo>& keys) : prefix_(std::move(prefix)), keys_(keys) {}

  template <class T>
  void field(std::string_view key, T& value, std::string_view help, const Rules& rules = {}) {
    KeyInfo info;
    info.path = prefix_ + std::string(key);
    info.help = help;
    info.required = rules.required && rules.unless.empty();
    if (!rules.unless.empty()) info.default_text = absl::StrCat("this or `", rules.unless, "`");
    if (rules.unless.empty() && !rules.required) info.default_text = default_of(value, rules);
    add(std::move(info), value, rules);
  }

  void directive(std::string_view key, std::string_view help) {
    KeyInfo info;
    info.path = prefix_ + std::string(key);
    info.type = "path, or list of path";
    info.help = help;
    keys_.push_back(std::move(info));
  }

 private:
  template <class T>
  static std::string default_of(const T& value, const Rules& rules) {
    if (!rules.default_text.empty()) return std::string(rules.default_text);
    if (rules.omit_empty) return "";
    if constexpr (IsScalar<T>) {
      const std::string text = Scalar<T>::print(value);
      return absl::StrCat("`", text.empty() ? "\"\"" : text, "`");
    }
    if constexpr (kIsList<T>) return "`[]`";
    return "";
  }

  template <class T>
  void add(KeyInfo info, T& value, const Rules& rules) {
    if constexpr (IsScalar<T>) {
      info.type = scalar_type<T>(rules);
      keys_.push_back(std::move(info));
    } else if constexpr (kIsList<T>) {
      add_list<typename T::value_type>(std::move(info), rules);
    } else if constexpr (requires { value.emplace(); }) {
      add(std::move(info), value.emplace(), rules);
    } else {
      add_map(std::move(info), "map", ".", value);
    }
  }

  template <class T>
  void add_list(KeyInfo info, const Rules& rules) {
    if constexpr (IsScalar<T>) {
      info.type = absl::StrCat(rules.one_word ? absl::StrCat(Scalar<T>::type(), ", or list of ") : "list of ",
                               Scalar<T>::type());
      keys_.push_back(std::move(info));
    } else {
      T item;
      add_map(std::move(info), rules.one_word ? "map, or list of map" : "list of map", "[].", item);
    }
  }

  template <class T>
  void add_map(KeyInfo info, std::string_view type, std::string_view separator, T& value) {
    KeyLister lister(info.path + std::string(separator), keys_);
    info.type = type;
    keys_.push_back(std::move(info));
    describe(lister, value);
  }

  std::string prefix_;
  std::vector<KeyInfo>& keys_;
};

}  // namespace

std::vector<KeyInfo> list_keys() {
  std::vector<KeyInfo> keys;
  Config config;
  KeyLister lister("", keys);
  describe(lister, config);
  return keys;
}

std::string key_reference_markdown() {
  std::string out = "| key | type | default | what it does |\n|---|---|---|---|\n";
  for (const KeyInfo& key : list_keys()) {
    absl::StrAppend(&out, "| `", key.path, "` | ", key.type, " | ", key.required ? "required" : key.default_text, " | ",
                    key.help, " |\n");
  }
  return out;
}

}  // namespace sluice::config
