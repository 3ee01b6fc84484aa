#include "proxy/config/load/print_json.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "proxy/config/load/schema.h"

namespace sluice::config {
namespace {

// Whether the values of a field of this name are likely to be secrets. Too many hidden values do less harm than too
// few.
bool names_secret(std::string_view name) {
  const std::string lower = absl::AsciiStrToLower(name);
  constexpr std::string_view kParts[] = {"auth", "cookie", "token",      "secret",
                                         "key",  "passw",  "credential", "signature"};
  return std::any_of(std::begin(kParts), std::end(kParts),
                     [&](std::string_view part) { return absl::StrContains(lower, part); });
}

// The visitor that writes a struct as an object.
class ObjectPrinter {
 public:
  // `hides`: the values are a secret's, apart from the name.
  ObjectPrinter(JsonWriter& json, bool hides) : json_(json), hides_(hides) {}

  template <class T>
  void field(std::string_view key, T& value, std::string_view /*help*/, const Rules& rules = {}) {
    if (rules.omit_empty && is_unset(value)) return;
    json_.key(key);
    const bool hidden = key == "secret" || (hides_ && key != "name");
    hidden && !std::is_same_v<T, bool> ? void(json_.value(kHidden)) : print(value);
  }

  void directive(std::string_view, std::string_view) {}

 private:
  template <class T>
  static bool is_secret(const T& value) {
    if constexpr (std::is_same_v<T, FieldChange> || std::is_same_v<T, HeaderMatch>) {
      return names_secret(value.name.text());
    } else if constexpr (std::is_same_v<T, QueryMatch>) {
      return names_secret(value.name);
    } else {
      return false;
    }
  }

  template <class T>
  void print(T& value) {
    if constexpr (std::is_same_v<T, bool> || std::is_same_v<T, uint32_t>) {
      json_.value(value);
    } else if constexpr (std::is_same_v<T, AutoCount>) {
      value ? void(json_.value(*value)) : void(json_.value("auto"));
    } else if constexpr (std::is_same_v<T, Burst>) {
      value.is_auto() || value.is_size() ? void(json_.value(value.text())) : void(json_.value(value.amount()));
    } else if constexpr (IsScalar<T>) {
      json_.value(Scalar<T>::print(value));
    } else if constexpr (kIsList<T>) {
      json_.begin_array();
      for (auto& item : value) print(item);
      json_.end_array();
    } else if constexpr (requires { value.has_value(); }) {
      print(*value);
    } else {
      json_.begin_object();
      ObjectPrinter printer(json_, is_secret(value));
      describe(printer, value);
      json_.end_object();
    }
  }

  JsonWriter& json_;
  const bool hides_;
};

}  // namespace

void write_config(const Config& config, JsonWriter& json) {
  Config copy = config;  // describe() takes mutable fields, which the loader needs
  json.begin_object();
  ObjectPrinter printer(json, /*hides=*/false);
  describe(printer, copy);
  json.end_object();
}

}  // namespace sluice::config
