// Values of nginx's directives in the form of Sluice's configuration.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "proxy/convert/common/regex_text.h"

namespace sluice::convert::nginx {

/// `60`, `1m30s`, `500ms`.
std::optional<std::chrono::milliseconds> parse_time(std::string_view text);
/// `1024`, `16k`, `1m`.
std::optional<uint64_t> parse_size(std::string_view text);

/// What a text with variables becomes.
struct TranslatedText {
  std::string text;
  std::string unknown;  ///< The first variable without a counterpart; empty if all have one.
};

/// What is known about a server, whose variables have fixed values.
struct FixedVariables {
  std::string server_name;
  std::string server_port;
  std::string proxy_host;
};

TranslatedText translate_text(std::string_view text, const FixedVariables& fixed);
/// Whether a text has variables.
bool has_variables(std::string_view text);

/// nginx compares paths decoded, Sluice in a form in which only letters, digits and `-._~` are decoded: these fit both
/// forms of other characters, so that no path gets around a location. Nothing if that cannot be said, or if RE2 does
/// not know the expression.
std::optional<PathSet> decoded_path_regex(std::string_view regex, bool any_case);
/// The same for a path, or the beginning of one.
std::optional<PathSet> decoded_path(std::string_view text, PathSet::Kind kind);

/// The replacement of a `rewrite` as a substitution: `/new/$1` as `/new/\1`; nothing if it has other variables.
std::optional<std::string> substitution_of(std::string_view replacement);

/// The address of a `listen` or of a server, as Sluice writes it; nothing if it is none. `port`: where it has none.
std::optional<std::string> address_of(std::string_view text, std::string_view port, bool listens);

}  // namespace sluice::convert::nginx
