#include "proxy/config/load/validate_sharing.h"

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "proxy/common/suggestions.h"
#include "proxy/config/model/address_groups.h"

namespace sluice::config {
namespace {

// Without TLS no client sends a name.
void check_has_names(const Listener& listener, const std::string& path, Report& report) {
  if (listener.server_names.empty() || listener.tls || listener.alts || !listener.http) return;
  report.error(path + ".server_names", "needs `tls`: without it, clients of `http` send no server name");
}

// One socket accepts for all listeners, before it is known which of them the client is for.
void check_accept_options(const Config& config, size_t index, size_t accepts, Report& report) {
  const Listener &listener = config.listeners[index], &first = config.listeners[accepts];
  const std::string path = item_path("listeners", index);
  const auto check = [&](bool same, const char* key) {
    if (same) return;
    report.error(absl::StrCat(path, ".", key),
                 absl::StrCat("must be the same as that of ", report.with_place(item_path("listeners", accepts)),
                              ", which has the same address"));
  };
  check(listener.ipv6_only == first.ipv6_only, "ipv6_only");
  check(listener.backlog == first.backlog, "backlog");
  check(listener.connection_rate_limits == first.connection_rate_limits, "connection_rate_limits");
  check(listener.proxy_protocol == first.proxy_protocol, "proxy_protocol");
  check(listener.keepalive == first.keepalive, "keepalive");
  check(listener.nodelay == first.nodelay, "nodelay");
}

void check_group(const Config& config, const std::vector<size_t>& group, Report& report) {
  std::map<std::string, size_t> owners;
  std::optional<size_t> rest;
  for (const size_t index : group) {
    const Listener& listener = config.listeners[index];
    const std::string path = item_path("listeners", index);
    if (listener.alts) {
      report.error(path + ".alts",
                   "ALTS has no server names: a listener with it shares its address with no other, and "
                   "has no `server_names`");
    }
    if (listener.server_names.empty() && rest) {
      report.error(path + ".address",
                   absl::StrCat("neither this listener nor ", report.with_place(item_path("listeners", *rest)),
                                ", which has the same address, has `server_names`; give them to all "
                                "but one"));
    } else if (listener.server_names.empty()) {
      rest = index;
    }
    if (index != group.front()) check_accept_options(config, index, group.front(), report);
    for (size_t i = 0; i < listener.server_names.size(); ++i) {
      const std::string& name = listener.server_names[i].text();
      const auto [owner, is_new] = owners.emplace(name, index);
      if (is_new) continue;
      report.error(item_path(path + ".server_names", i),
                   owner->second == index ? absl::StrCat(in_quotes(name), " is listed twice")
                                          : absl::StrCat(in_quotes(name), " is already a name of ",
                                                         report.with_place(item_path("listeners", owner->second)),
                                                         ", which has the same address"));
    }
  }
}

}  // namespace

void check_sharing(const Config& config, Report& report) {
  const AddressGroups groups(config.listeners);
  for (size_t i = 0; i < config.listeners.size(); ++i) {
    check_has_names(config.listeners[i], item_path("listeners", i), report);
  }
  for (const std::vector<size_t>& group : groups.groups()) {
    if (groups.role(group.front()) != AddressGroups::Role::kAlone) check_group(config, group, report);
  }
}

}  // namespace sluice::config
