// The reference of all keys, generated from the key table in schema.h, as the loader is.
#pragma once

#include <string>
#include <vector>

namespace sluice::config {

/// One key.
struct KeyInfo {
  std::string path;          ///< `listeners[].tcp.idle_timeout`; `[]` stands for each item of a list.
  std::string type;          ///< The type with its bounds, such as `duration`; enum values in backticks.
  std::string default_text;  ///< In YAML; empty if there is none.
  std::string help;          ///< One or two sentences, Markdown.
  bool required = false;
};

/// All keys, in the order of `check --print`.
std::vector<KeyInfo> list_keys();

/// The keys as a Markdown table, which docs/reference/configuration.md contains between its two `keys` markers.
std::string key_reference_markdown();

}  // namespace sluice::config
