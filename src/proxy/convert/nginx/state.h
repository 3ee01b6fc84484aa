// What the parts of the mapping of nginx share.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/str_cat.h"
#include "proxy/convert/common/finding.h"
#include "proxy/convert/common/named_list.h"
#include "proxy/convert/common/values.h"
#include "proxy/convert/common/yaml_writer.h"
#include "proxy/convert/nginx/directive.h"
#include "proxy/convert/nginx/directive_table.h"
#include "proxy/convert/nginx/scope.h"

namespace sluice::convert::nginx {

/// A limit of requests, as a zone says.
struct LimitZone {
  std::string rate;  ///< `10/s`
  uint64_t per_minute = 0;
  config::Node key = map_node();
};

struct State {
  Findings& findings;
  std::string main_file;
  const Directive& main;  ///< The main level.

  NameTable listener_names;
  config::Node listeners = list_node();
  NamedList upstreams;
  NamedList limits;

  std::map<std::string, const Directive*, std::less<>> http_upstreams;  ///< The blocks, by name.
  std::map<std::string, const Directive*, std::less<>> stream_upstreams;
  std::map<std::string, LimitZone, std::less<>> limit_zones;
  std::set<std::string, std::less<>> source_zones;       ///< Of limit_conn, by the client's address.
  std::set<std::string, std::less<>> upgrade_variables;  ///< That are `upgrade` where the client wants an upgrade.

  void refuse(const Directive& directive, std::string_view message) {
    report(directive, Severity::kRefused, message, findings);
  }
  void ignore(const Directive& directive, std::string_view message) {
    report(directive, Severity::kIgnored, message, findings);
  }
  /// A path of a file, as an absolute one.
  std::string file(std::string_view path) const { return absolute_path(main_file, path); }
};

/// Writes the time in the first argument of a directive, if there is one. A 0 becomes `zero`.
void put_time(config::Node& out, std::string_view key, const Directive* directive, State& state,
              std::string_view zero = "0");
/// The same for a size.
void put_size(config::Node& out, std::string_view key, const Directive* directive, State& state);

}  // namespace sluice::convert::nginx
