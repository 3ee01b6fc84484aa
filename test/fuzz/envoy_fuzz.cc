// Any YAML as resources of Envoy's: the mapping ends, its result is YAML, and what it refuses it says.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "proxy/config/load/diagnostics.h"
#include "proxy/config/load/loader.h"
#include "proxy/config/load/yaml.h"
#include "proxy/envoy/mapping.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace sluice;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  config::Report report("fuzz");
  config::YamlBudget budget{.bytes = size_t{1} << 20, .nodes = size_t{1} << 14, .depth = 64, .has_variables = false};
  config::Node root;
  if (!config::parse_yaml(text, 0, budget, root, report)) return 0;
  envoy::Findings findings;
  envoy::ResourceSet resources;
  if (!resources.add_document(root, findings)) {
    if (findings.count(envoy::Severity::kRefused) == 0) std::abort();
    return 0;
  }
  const std::string mapped = envoy::map_resources(resources, findings);
  config::Report again("mapped");
  config::YamlBudget more{.bytes = SIZE_MAX, .nodes = SIZE_MAX, .depth = 64};
  config::Node result;
  if (!config::parse_yaml(mapped, 0, more, result, again)) std::abort();
  // Whether a value is valid is the loader's to say; it must not fail on one.
  static_cast<void>(config::load_text(mapped, "mapped"));
  return 0;
}
