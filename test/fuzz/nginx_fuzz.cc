// Any text as a file of nginx's: the mapping ends, and its result is YAML. Behind a line of `---` the text of a second
// file begins, which every `include` names.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "proxy/config/load/diagnostics.h"
#include "proxy/config/load/loader.h"
#include "proxy/config/load/yaml.h"
#include "proxy/convert/nginx/mapping.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace sluice;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const size_t border = text.find("\n---\n");
  const std::string first(text.substr(0, border));
  const std::string second(border == std::string_view::npos ? "" : text.substr(border + 5));
  const convert::Disk disk{
      .read =
          [&](const std::string& path) { return absl::StatusOr<std::string>(path == "nginx.conf" ? first : second); },
      .matches = [](const std::string&) { return std::vector<std::string>{"second.conf"}; }};
  const convert::Conversion made = convert::nginx::map_file("nginx.conf", disk);
  if (!made.error.empty()) return 0;
  config::Report report("result");
  config::YamlBudget budget{.bytes = SIZE_MAX, .nodes = SIZE_MAX, .depth = 64};
  config::Node root;
  if (!config::parse_yaml(made.text, 0, budget, root, report)) std::abort();
  // Whether a value is valid is the loader's to say; it must not fail on one.
  static_cast<void>(config::load_text(made.text, "result"));
  return 0;
}
