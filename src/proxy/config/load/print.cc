#include "proxy/config/load/print.h"

#include <algorithm>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "proxy/config/load/schema.h"
#include "proxy/config/load/variables.h"

namespace sluice::config {
namespace {

// Whether YAML reads the unquoted text back unchanged, also within [ ].
bool is_plain(std::string_view text) {
  if (text.empty() || text.back() == ':') return false;
  const std::string lower = absl::AsciiStrToLower(text);
  if (lower == "null") return false;
  const auto inside = [](unsigned char c) {
    return absl::ascii_isalnum(c) || std::string_view("_./:@+-").find(static_cast<char>(c)) != std::string_view::npos;
  };
  const auto first = static_cast<unsigned char>(text.front());
  if (!absl::ascii_isalnum(first) && first != '/' && first != '_') return false;
  return std::all_of(text.begin(), text.end(), inside);
}

std::string yaml_scalar(std::string_view value) {
  const std::string text = escape_variables(value);
  if (is_plain(text)) return text;
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      absl::StrAppend(&out, "\\", std::string_view(&c, 1));
    } else if (c == '\n') {
      out += "\\n";
    } else if (absl::ascii_iscntrl(static_cast<unsigned char>(c))) {
      absl::StrAppend(&out, "\\x", absl::Hex(c, absl::kZeroPad2));
    } else {
      out += c;
    }
  }
  return out + "\"";
}

// The visitor that writes a struct as a block map.
class MapPrinter {
 public:
  // The first line starts with `lead`, the others with the same number of blanks.
  MapPrinter(std::string lead, std::string& out) : lead_(std::move(lead)), out_(out) {}

  template <class T>
  void field(std::string_view key, T& value, std::string_view /*help*/, const Rules& rules = {}) {
    if (rules.omit_empty && is_unset(value)) return;
    absl::StrAppend(&out_, lead_, key, ":");
    lead_.assign(lead_.size(), ' ');
    if constexpr (kIsList<T>) {
      // Most listeners have one address.
      if (rules.required && rules.one_word && value.size() == 1) return print(value.front());
    }
    print(value);
  }

  void directive(std::string_view, std::string_view) {}

 private:
  template <class T>
  void print(T& value) {
    if constexpr (IsScalar<T>) {
      absl::StrAppend(&out_, " ", yaml_scalar(Scalar<T>::print(value)), "\n");
    } else if constexpr (kIsList<T>) {
      print_list(value);
    } else if constexpr (requires { value.has_value(); }) {
      print(*value);
    } else {
      out_ += "\n";
      MapPrinter printer(lead_ + "  ", out_);
      describe(printer, value);
    }
  }

  template <class T>
  void print_list(std::vector<T>& list) {
    if constexpr (IsScalar<T>) {
      out_ += list.empty() ? " [" : " [ ";
      for (size_t i = 0; i < list.size(); ++i) {
        absl::StrAppend(&out_, i == 0 ? "" : ", ", yaml_scalar(Scalar<T>::print(list[i])));
      }
      out_ += list.empty() ? "]\n" : " ]\n";
    } else {
      out_ += list.empty() ? " []\n" : "\n";
      for (T& item : list) {
        MapPrinter printer(lead_ + "  - ", out_);
        describe(printer, item);
      }
    }
  }

  std::string lead_;
  std::string& out_;
};

}  // namespace

std::string print_config(const Config& config) {
  std::string out;
  Config copy = config;  // describe() takes mutable fields, which the loader needs
  MapPrinter printer("", out);
  describe(printer, copy);
  return out;
}

}  // namespace sluice::config
