// Builds Sluice's configuration as a tree, and writes it as YAML.
#pragma once

#include "proxy/convert/common/yaml_writer.h"

namespace sluice::envoy {

using convert::list_at;
using convert::list_node;
using convert::map_at;
using convert::map_node;
using convert::put;
using convert::put_words;
using convert::remove_key;
using convert::same_value;
using convert::scalar_node;
using convert::write_yaml;

}  // namespace sluice::envoy
