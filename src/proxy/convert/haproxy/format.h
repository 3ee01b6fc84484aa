// HAProxy's log format, in which fields and redirects are written.
#pragma once

#include <string>
#include <string_view>

#include "proxy/config/load/yaml.h"

namespace sluice::convert::haproxy {

struct TranslatedText {
  std::string text;     ///< With Sluice's variables.
  std::string unknown;  ///< The first part without a counterpart; empty if all have one.
};

TranslatedText translate_format(std::string_view format);
/// Whether it is a fixed text.
bool is_fixed(std::string_view format);

/// Writes `redirect location URL`, or `redirect prefix URL`, to `out`. Returns false if it cannot be said.
bool put_redirect(std::string_view url, bool is_prefix, config::Node& out);

/// Writes the path of `set-path` to `out`, a `rewrite`. Returns false if it cannot be said.
bool put_path(std::string_view format, config::Node& out);

}  // namespace sluice::convert::haproxy
