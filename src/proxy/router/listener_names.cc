#include "proxy/router/listener_names.h"

#include <cstdint>
#include <span>

#include "proxy/config/model/config.h"

namespace sluice {

ListenerNames::ListenerNames(const std::vector<const config::Listener*>& listeners) {
  std::vector<NamePattern> patterns;
  for (uint32_t i = 0; i < listeners.size(); ++i) {
    if (listeners[i]->server_names.empty()) rest_ = i;
    for (const config::HostPattern& name : listeners[i]->server_names) patterns.push_back({name.text(), i});
  }
  names_ = NameTable(patterns);
}

size_t ListenerNames::find(std::string_view name) const {
  uint32_t found = names_.find(name).best();
  if (found == NameTable::kNone) {
    // Patterns with two stars: the longest comes last.
    names_.for_each_match(name, [&](std::span<const uint32_t> values) { found = values.front(); });
  }
  return found == NameTable::kNone ? rest_ : found;
}

}  // namespace sluice
