// The reference of all keys, from the same table that the loader reads by.
#pragma once

#include <string>
#include <vector>

namespace sluice::config {

/// One key.
struct KeyInfo {
  std::string path;          ///< `listeners[].tcp.idle_timeout`; `[]` stands for each item of a list.
  std::string type;          ///< Such as `duration`, `list of address`, with its bounds; words of enums in backticks.
  std::string default_text;  ///< As it is written in YAML; empty if there is none.
  std::string help;          ///< One or two sentences, Markdown.
  bool required = false;
  bool available = true;  ///< false: known, but refused in this version.
};

/// All keys, in the order in which `check --print` writes them.
std::vector<KeyInfo> list_keys();

/// The keys as a Markdown table: the part of docs/configuration.md between its two `keys` markers.
std::string key_reference_markdown();

}  // namespace sluice::config
