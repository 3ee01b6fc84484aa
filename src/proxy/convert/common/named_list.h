// Entries of the result that routes name: upstreams and limits.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "proxy/convert/common/values.h"
#include "proxy/convert/common/yaml_writer.h"

namespace sluice::convert {

/// A list in which entries of the same origin and with the same keys are there once.
class NamedList {
 public:
  /// The name of the entry with the keys of `out`, which is added if there is none. `origin`: its name in the other
  /// proxy, which becomes its name here as far as it can.
  std::string name_for(config::Node out, std::string_view origin) {
    std::vector<Entry>& known = by_origin_[std::string(origin)];
    for (const Entry& each : known) {
      if (same_value(each.out, out)) return each.name;
    }
    const std::string name = names_.new_name(origin);
    config::Node entry = map_node();
    put(entry, "name", name);
    for (size_t i = 0; i < out.keys.size(); ++i) put(entry, out.keys[i].text, out.items[i]);
    list_.items.push_back(std::move(entry));
    known.push_back({.name = name, .out = std::move(out)});
    return name;
  }
  const config::Node& list() const { return list_; }

 private:
  struct Entry {
    std::string name;
    config::Node out;
  };
  NameTable names_;
  std::map<std::string, std::vector<Entry>, std::less<>> by_origin_;
  config::Node list_ = list_node();
};

}  // namespace sluice::convert
