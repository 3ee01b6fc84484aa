#include "proxy/convert/nginx/server_names.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/strip.h"
#include "proxy/common/suggestions.h"
#include "proxy/config/model/host_pattern.h"
#include "proxy/convert/common/ordering.h"
#include "proxy/convert/common/regex_text.h"
#include "proxy/convert/common/request_set.h"

namespace sluice::convert::nginx {
namespace {

// One `server_name`.
struct ServerName {
  enum class Kind : uint8_t { kExact, kStar, kRegex, kUnknown, kNone };
  Kind kind = Kind::kNone;
  std::vector<std::string> hosts;
};

ServerName parse_name(std::string_view name) {
  if (absl::ConsumePrefix(&name, "~")) {
    std::optional<std::vector<std::string>> hosts = hosts_of_regex(name);
    return hosts ? ServerName{.kind = ServerName::Kind::kRegex, .hosts = *std::move(hosts)}
                 : ServerName{.kind = ServerName::Kind::kUnknown};
  }
  if (name.empty() || name == "_" || name == "\"\"") return {};
  const std::string lower = absl::AsciiStrToLower(name);
  if (lower.starts_with('.')) return {.kind = ServerName::Kind::kStar, .hosts = {lower.substr(1), "**" + lower}};
  if (lower.starts_with("*.") && config::HostPattern::parse(lower).ok())
    return {.kind = ServerName::Kind::kStar, .hosts = {"*" + lower}};
  if (!lower.starts_with('*') && config::HostPattern::parse(lower).ok())
    return {.kind = ServerName::Kind::kExact, .hosts = {lower}};
  return {.kind = ServerName::Kind::kUnknown};
}

struct Entry {
  const Directive* server;
  ServerName::Kind kind;
  std::vector<std::string> hosts;

  size_t longest() const {
    size_t most = 0;
    for (const std::string& host : hosts) most = std::max(most, host.size());
    return most;
  }
};

// Whether another server has names that fit some of the same hosts, so that their order counts.
bool is_covered(const Entry& entry, const std::vector<Entry>& all) {
  return std::any_of(all.begin(), all.end(), [&](const Entry& other) {
    if (other.server == entry.server) return false;
    return other.kind == ServerName::Kind::kUnknown ||
           std::any_of(other.hosts.begin(), other.hosts.end(), [&](const std::string& wide) {
             return std::any_of(entry.hosts.begin(), entry.hosts.end(), [&](const std::string& host) {
               return host_covers(wide, host) || host_covers(host, wide);
             });
           });
  });
}

// Appends the hosts to those of the same server before, if there is nothing in between.
void add(std::vector<HostsOfServer>& made, const Directive* server, const std::vector<std::string>& hosts) {
  if (made.empty() || made.back().server != server || hosts.empty()) made.push_back({.server = server, .hosts = {}});
  for (const std::string& host : hosts) {
    std::vector<std::string>& known = made.back().hosts;
    if (std::find(known.begin(), known.end(), host) == known.end()) known.push_back(host);
  }
}

std::vector<Entry> entries_of(const ServerGroup& group, State& state) {
  std::vector<Entry> all;
  for (const Directive* const server : group.servers) {
    for (const Directive* const names : server->all("server_name")) {
      for (const std::string& text : names->args) {
        ServerName name = parse_name(text);
        if (name.kind == ServerName::Kind::kNone) continue;
        if (name.kind == ServerName::Kind::kUnknown && server != group.servers.front()) {
          state.refuse(*names, absl::StrCat(config::in_quotes(text),
                                            " cannot be said as a pattern: hosts that no name before it fits get 403"));
        }
        // All hosts that are left are the default server's anyway.
        if (name.kind == ServerName::Kind::kUnknown && server == group.servers.front()) continue;
        all.push_back({.server = server, .kind = name.kind, .hosts = std::move(name.hosts)});
      }
    }
  }
  return all;
}

}  // namespace

std::vector<HostsOfServer> hosts_of_group(const ServerGroup& group, State& state) {
  const std::vector<Entry> all = entries_of(group, state);
  std::vector<const Entry*> order;
  for (const Entry& entry : all) order.push_back(&entry);
  sort_in_order(order, [](const Entry* a, const Entry* b) {
    if (a->kind != b->kind) return a->kind < b->kind;
    return a->kind == ServerName::Kind::kStar && a->longest() > b->longest();
  });
  std::vector<HostsOfServer> made;
  bool closed = false;
  // One list of names for each server, where none of them is in the way of another one's.
  for (const Directive* const server : group.servers) {
    if (server == group.servers.front()) continue;
    for (const Entry* const entry : order) {
      if (entry->server == server && entry->kind != ServerName::Kind::kUnknown && !is_covered(*entry, all))
        add(made, server, entry->hosts);
    }
  }
  for (const Entry* const entry : order) {
    if (entry->kind == ServerName::Kind::kUnknown) {
      closed = true;
      break;
    }
    if (is_covered(*entry, all)) add(made, entry->server, entry->hosts);
  }
  add(made, closed ? nullptr : group.servers.front(), {});
  return made;
}

}  // namespace sluice::convert::nginx
