// Any text as a file of HAProxy's: the mapping ends, and its result is YAML.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "proxy/config/load/diagnostics.h"
#include "proxy/config/load/loader.h"
#include "proxy/config/load/yaml.h"
#include "proxy/convert/haproxy/mapping.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace sluice;
  const std::string text(reinterpret_cast<const char*>(data), size);
  const convert::Disk disk{.read = [&](const std::string&) { return absl::StatusOr<std::string>(text); },
                           .matches = [](const std::string&) { return std::vector<std::string>{"a.pem"}; }};
  const convert::Conversion made = convert::haproxy::map_file("haproxy.cfg", disk);
  if (!made.error.empty()) return 0;
  config::Report report("result");
  config::YamlBudget budget{.bytes = SIZE_MAX, .nodes = SIZE_MAX, .depth = 64};
  config::Node root;
  if (!config::parse_yaml(made.text, 0, budget, root, report)) std::abort();
  // Whether a value is valid is the loader's to say; it must not fail on one.
  static_cast<void>(config::load_text(made.text, "result"));
  return 0;
}
