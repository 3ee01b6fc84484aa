// Any bytes as a configuration file: loading never crashes, and the printed form of a loaded file loads as the same
// configuration. Each of its HTTP routes can be taken, or an earlier one is.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "proxy/config/load/loader.h"
#include "proxy/config/load/print.h"
#include "proxy/config/load/yaml.h"
#include "proxy/router/http_router.h"

namespace sluice {
namespace {

void check_routes(const config::Http& http, const std::vector<config::Upstream>& upstreams) {
  const HttpRouter router(http, upstreams);
  for (size_t i = 0; i < http.routes.size(); ++i) {
    const config::HttpMatch match = http.routes[i].match.value_or(config::HttpMatch());
    // Unknown values match nothing.
    const config::HttpMatch known{.host = match.host, .path = match.path};
    if (match != known || (match.path && !match.path->regex.text().empty())) continue;
    std::string host = match.host.empty() ? "" : match.host.front().text();
    if (host.starts_with('*')) host.front() = 'a';
    const std::string path = !match.path ? "/" : match.path->exact + match.path->prefix;
    const HttpTarget* target = router.route({.host = host, .path = path});
    if (target == nullptr || target->index > i) std::abort();
  }
}

}  // namespace
}  // namespace sluice

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const absl::StatusOr<sluice::config::Config> config = sluice::config::load_text(text, "fuzz");
  if (!config.ok()) {
    if (config.status().message().empty()) std::abort();
    return 0;
  }
  const std::string printed = sluice::config::print_config(*config);
  // A few aliases can make so much of a short input that its printed form, with all defaults, is too large.
  if (printed.size() > sluice::config::kMaxYamlBytes) return 0;
  const absl::StatusOr<sluice::config::Config> again = sluice::config::load_text(printed, "printed");
  if (!again.ok() || *again != *config || sluice::config::print_config(*again) != printed) std::abort();
  for (const sluice::config::Listener& listener : config->listeners) {
    if (listener.http) sluice::check_routes(*listener.http, config->upstreams);
  }
  return 0;
}
