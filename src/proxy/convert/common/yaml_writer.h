// Builds Sluice's configuration as a tree, and writes it as YAML.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "proxy/config/load/yaml.h"

namespace sluice::convert {

config::Node scalar_node(std::string_view text);
config::Node list_node(const std::vector<std::string>& texts = {});
config::Node map_node();

/// Sets a key of a map, and returns its value in the map, which is valid until the map gets another key.
config::Node& put(config::Node& map, std::string_view key, config::Node value);
config::Node& put(config::Node& map, std::string_view key, std::string_view text);
/// The value of `key`, which is created as an empty map or list if it is absent.
config::Node& map_at(config::Node& map, std::string_view key);
config::Node& list_at(config::Node& map, std::string_view key);
/// A text where there is one, else a list: `host: a` or `host: [ a, b ]`.
void put_words(config::Node& map, std::string_view key, const std::vector<std::string>& texts);
/// Removes a key of a map, if it is there.
void remove_key(config::Node& map, std::string_view key);
/// Whether both are the same, wherever they were written.
bool same_value(const config::Node& a, const config::Node& b);

/// The tree as a YAML document. Short maps and lists are in one line.
std::string write_yaml(const config::Node& root);

}  // namespace sluice::convert
