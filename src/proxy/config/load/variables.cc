#include "proxy/config/load/variables.h"

#include <cstdlib>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"
#include "proxy/common/suggestions.h"

namespace sluice::config {
namespace {

constexpr std::string_view kOpen = "${", kLiteral = "$${";

// A name as shells take it.
bool is_variable_name(std::string_view name) {
  if (name.empty() || absl::ascii_isdigit(static_cast<unsigned char>(name.front()))) return false;
  for (const char c : name) {
    if (c != '_' && !absl::ascii_isalnum(static_cast<unsigned char>(c))) return false;
  }
  return true;
}

// `text` begins with "${". Moves it behind the variable, and returns the value.
absl::StatusOr<std::string> take_variable(std::string_view& text, size_t& budget) {
  const size_t end = text.find('}');
  const std::string_view whole = text.substr(0, end == std::string_view::npos ? end : end + 1);
  std::string_view name = whole;
  absl::ConsumePrefix(&name, kOpen);
  const bool is_closed = absl::ConsumeSuffix(&name, "}");
  const size_t dash = name.find(":-");
  const bool has_default = dash != std::string_view::npos;
  const std::string_view fallback = has_default ? name.substr(dash + 2) : "";
  name = name.substr(0, dash);
  if (!is_closed || !is_variable_name(name) || absl::StrContains(fallback, kOpen)) {
    return absl::InvalidArgumentError(
        absl::StrCat("expected an environment variable such as ${NAME} or "
                     "${NAME:-default}, got ",
                     in_quotes(whole), "; write $${ where ${ is meant as it is"));
  }
  text.remove_prefix(whole.size());
  const char* const found = std::getenv(std::string(name).c_str());
  const std::string_view value = found == nullptr ? "" : found;
  if (value.empty() && has_default) return std::string(fallback);
  if (found == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat("the environment variable ", in_quotes(name),
                     " is not set: set it for the process, or write a default, as in ${NAME:-default}"));
  }
  if (value.size() > budget) {
    return absl::ResourceExhaustedError(
        absl::StrCat("the value of the environment variable ", in_quotes(name), " has ", value.size(),
                     " bytes, but the bound on the size of a configuration leaves ", budget));
  }
  budget -= value.size();
  return std::string(value);
}

}  // namespace

absl::StatusOr<std::string> expand_variables(std::string_view text, size_t& budget) {
  std::string out;
  while (true) {
    const size_t dollar = text.find('$');
    out.append(text.substr(0, dollar));
    if (dollar == std::string_view::npos) return out;
    text.remove_prefix(dollar);
    if (absl::ConsumePrefix(&text, kLiteral)) {
      out.append(kOpen);
    } else if (absl::StartsWith(text, kOpen)) {
      const absl::StatusOr<std::string> value = take_variable(text, budget);
      if (!value.ok()) return value.status();
      out.append(*value);
    } else {
      out.push_back('$');
      text.remove_prefix(1);
    }
  }
}

std::string escape_variables(std::string_view text) { return absl::StrReplaceAll(text, {{kOpen, kLiteral}}); }

}  // namespace sluice::config
