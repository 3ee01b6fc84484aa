#include "proxy/convert/nginx/listener_settings.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "proxy/common/suggestions.h"
#include "proxy/config/model/address.h"
#include "proxy/convert/nginx/values.h"

namespace sluice::convert::nginx {
namespace {

using config::Node;

bool same_values(const std::vector<const Directive*>& a, const std::vector<const Directive*>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const Directive* x, const Directive* y) { return x->args == y->args; });
}

// Directives that hold for a listener: those of its default server count.
void report_others(const ServerGroup& group, const Scope& context, State& state) {
  constexpr std::string_view kNames[] = {"access_log",
                                         "client_body_timeout",
                                         "client_header_timeout",
                                         "keepalive_timeout",
                                         "large_client_header_buffers",
                                         "send_timeout",
                                         "keepalive_requests",
                                         "error_page",
                                         "limit_conn",
                                         "merge_slashes"};
  const Scope first{group.servers.front(), &context};
  for (const Directive* const server : group.servers) {
    for (const std::string_view name : kNames) {
      const std::vector<const Directive*> own = server->all(name);
      if (own.empty() || same_values(own, first.all(name))) continue;
      const std::string_view message = "it is one for all servers of an address: that of the default server counts";
      name == "limit_conn" || name == "error_page" ? state.refuse(*own.front(), message)
                                                   : state.ignore(*own.front(), message);
    }
    for (const Directive* const location : server->all("location")) {
      for (const Directive* const log : location->all("access_log"))
        state.ignore(*log, "the access log is that of a listener");
    }
  }
}

// Whether some location lets clients in by their address.
bool has_address_rules(const Directive& block) {
  return std::any_of(block.block.begin(), block.block.end(), [](const Directive& each) {
    return each.name == "allow" || each.name == "deny" || has_address_rules(each);
  });
}

bool judges_addresses(const ServerGroup& group, const Scope& context) {
  if (!context.block->all("allow").empty() || !context.block->all("deny").empty()) return true;
  return std::any_of(group.servers.begin(), group.servers.end(),
                     [](const Directive* server) { return has_address_rules(*server); });
}

// Ranges of proxies that say who the client is.
std::vector<std::string> trusted_ranges(const Scope& scope, State& state) {
  std::vector<std::string> ranges;
  for (const Directive* const each : scope.all("set_real_ip_from")) {
    if (config::Cidr::parse(each->arg(0)).ok()) {
      ranges.emplace_back(each->arg(0));
    } else {
      state.refuse(*each,
                   absl::StrCat(config::in_quotes(each->arg(0)), " is no range of addresses: it is not trusted"));
    }
  }
  return ranges;
}

void put_access_log(const Scope& scope, State& state, Node& http) {
  const Directive* const log = scope.find("access_log");
  if (log == nullptr || log->arg(0) == "off") return;
  std::string path(log->arg(0));
  if (path.starts_with("syslog:") || has_variables(path)) {
    return state.refuse(*log, "expected a file with a fixed name; see docs/guides/access-log.md for syslog");
  }
  if (path == "/dev/stdout" || path == "/dev/stderr") {
    path = path.substr(5);
  } else {
    path = state.file(path);
  }
  for (size_t i = 1; i < log->args.size(); ++i) {
    if (log->args[i].starts_with("if="))
      state.ignore(*log, "all requests are logged; see `when` in docs/guides/access-log.md");
  }
  state.ignore(*log, "lines have Sluice's form: see docs/guides/access-log.md");
  put(http, "access_log", path);
}

void put_head_limits(const Scope& scope, State& state, Node& http) {
  const Directive* const buffers = scope.find("large_client_header_buffers");
  if (buffers == nullptr) return;
  uint64_t count = 0;
  const auto size = parse_size(buffers->arg(1));
  if (!absl::SimpleAtoi(buffers->arg(0), &count) || !size)
    return state.refuse(*buffers, "expected a number and a size");
  constexpr uint64_t kLeast = 1024, kMost = 65536;
  count = std::clamp<uint64_t>(count, 1, kMost);
  put(http, "max_start_line", size_text(std::clamp(*size, kLeast, kMost)));
  put(http, "max_head", size_text(std::clamp(count * std::min(*size, kMost), kLeast, kMost)));
}

void put_keep_alive(const Scope& scope, State& state, Node& http) {
  const Directive* const timeout = scope.find("keepalive_timeout");
  const auto time = timeout == nullptr ? std::nullopt : parse_time(timeout->arg(0));
  Node http1 = map_node();
  if (time && time->count() == 0) {
    put(http1, "max_requests", "1");
  } else {
    put_time(http, "idle_timeout", timeout, state);
    if (const Directive* const requests = scope.find("keepalive_requests"))
      put(http1, "max_requests", requests->arg(0));
  }
  put_time(http, "max_connection_age", scope.find("keepalive_time"), state);
  if (scope.is_on("underscores_in_headers")) put(http1, "allow_underscores", "true");
  if (!http1.keys.empty()) put(http, "http1", std::move(http1));
}

bool has_gzip(const Directive& block) {
  return std::any_of(block.block.begin(), block.block.end(), [](const Directive& each) {
    return (each.name == "gzip" && each.arg(0) == "on") || has_gzip(each);
  });
}

void put_compression(const ServerGroup& group, const Scope& context, State& state, Node& http) {
  const bool in_server = std::any_of(group.servers.begin(), group.servers.end(),
                                     [](const Directive* server) { return has_gzip(*server); });
  if (!in_server && !context.is_on("gzip")) return;
  const Scope scope{group.servers.front(), &context};
  Node& out = put(http, "compression", map_node());
  put(out, "codings", "gzip");
  std::vector<std::string> types{"text/html"};
  if (const Directive* const given = scope.find("gzip_types")) {
    for (const std::string& type : given->args) {
      if (type == "*") {
        state.refuse(*given, "types of responses are listed: none beside those is compressed");
      } else if (std::find(types.begin(), types.end(), type) == types.end()) {
        types.push_back(type);
      }
    }
  }
  put_words(out, "types", types);
  if (const Directive* const least = scope.find("gzip_min_length")) {
    put_size(out, "min_size", least, state);
  } else {
    put(out, "min_size", "20");
  }
  put(out, "level", scope.value("gzip_comp_level", "1"));
}

bool put_trusted_proxies(const ServerGroup& group, const Scope& context, State& state, Node& http) {
  const Scope scope{group.servers.front(), &context};
  const Directive* const from = scope.find("set_real_ip_from");
  if (from == nullptr) return true;
  const std::string header = absl::AsciiStrToLower(scope.value("real_ip_header", "X-Real-IP"));
  if (header == "proxy_protocol") return true;
  if (header != "x-forwarded-for") {
    const bool judges = judges_addresses(group, context);
    state.refuse(
        *from,
        absl::StrCat("the client's address is read from X-Forwarded-For only, not from ", config::in_quotes(header),
                     judges ? ": its address refuses all requests, since there are rules for addresses" : ""));
    return !judges;
  }
  const std::vector<std::string> ranges = trusted_ranges(scope, state);
  if (ranges.empty()) return true;
  put(http, "trusted_proxies", list_node(ranges));
  if (!scope.is_on("real_ip_recursive")) put(http, "trusted_hops", "1");
  return true;
}

}  // namespace

bool put_listener_settings(const ServerGroup& group, const Scope& context, State& state, Node& listener) {
  const Scope scope{group.servers.front(), &context};
  if (group.ipv6_only) put(listener, "ipv6_only", "true");
  uint32_t backlog = 0;
  if (absl::SimpleAtoi(group.backlog, &backlog) && backlog > 0)
    put(listener, "backlog", absl::StrCat(std::min(backlog, 65535U)));
  for (const Directive* const limit : scope.all("limit_conn")) {
    uint32_t most = 0;
    if (!state.source_zones.contains(limit->arg(0)) || !absl::SimpleAtoi(limit->arg(1), &most) || most == 0) {
      state.refuse(*limit, "connections are counted by the client's address only");
      continue;
    }
    put(listener, "max_connections_per_source", absl::StrCat(most));
    state.ignore(*limit, "connections are counted, also those that wait for a request");
  }
  if (!group.has_proxy_protocol) return true;
  Node& proxy_protocol = put(listener, "proxy_protocol", map_node());
  put(proxy_protocol, "accept", "required");
  put_time(proxy_protocol, "timeout", scope.find("proxy_protocol_timeout"), state);
  const bool trusts = scope.value("real_ip_header") == "proxy_protocol" || context.block->name == "stream";
  const std::vector<std::string> ranges = trusts ? trusted_ranges(scope, state) : std::vector<std::string>();
  if (!ranges.empty()) {
    put(proxy_protocol, "trusted", list_node(ranges));
    return true;
  }
  if (!judges_addresses(group, context)) return true;
  state.refuse(*group.listen,
               "the address in the PROXY header is that of the client here, for allow and deny, too: its address "
               "refuses all requests; name the proxies by set_real_ip_from");
  return false;
}

bool put_http_settings(const ServerGroup& group, const Scope& context, State& state, Node& http) {
  const Scope scope{group.servers.front(), &context};
  report_others(group, context, state);
  put_time(http, "header_timeout", scope.find("client_header_timeout"), state);
  put_time(http, "body_timeout", scope.find("client_body_timeout"), state);
  put_time(http, "send_timeout", scope.find("send_timeout"), state);
  put_keep_alive(scope, state, http);
  put_head_limits(scope, state, http);
  if (const Directive* const streams = scope.find("http2_max_concurrent_streams")) {
    put(put(http, "http2", map_node()), "max_streams", streams->arg(0));
  }
  if (scope.find("client_max_body_size") == nullptr) {
    put(http, "max_body", "1MiB");
  } else {
    put_size(http, "max_body", scope.find("client_max_body_size"), state);
  }
  if (scope.value("merge_slashes") != "off") put(put(http, "paths", map_node()), "merge_slashes", "true");
  put_compression(group, context, state, http);
  put_access_log(scope, state, http);
  return put_trusted_proxies(group, context, state, http);
}

std::set<const Directive*> put_error_pages(const ServerGroup& group, const Scope& context, State& state, Node& http) {
  const Directive& server = *group.servers.front();
  const Scope scope{&server, &context};
  std::set<const Directive*> pages;
  Node errors = list_node();
  for (const Directive* const page : scope.all("error_page")) {
    const std::string uri = page->args.empty() ? "" : page->args.back();
    std::vector<std::string> statuses;
    for (size_t i = 0; i + 1 < page->args.size(); ++i) {
      uint32_t status = 0;
      if (absl::SimpleAtoi(page->args[i], &status) && status >= 400 && status <= 599) statuses.push_back(page->args[i]);
    }
    const Directive* holder = nullptr;
    for (const Directive* const location : server.all("location")) {
      if (location->args.size() == 2 && location->arg(0) == "=" && location->arg(1) == uri) holder = location;
    }
    const bool plain = uri.starts_with('/') && statuses.size() + 1 == page->args.size() && !statuses.empty();
    const std::string root(holder == nullptr ? "" : Scope{holder, &scope}.value("root"));
    if (!plain || root.empty() || has_variables(root)) {
      state.refuse(*page, "expected statuses from 400 on, and the path of a location with `root`");
      continue;
    }
    Node entry = map_node();
    put(entry, "status", list_node(statuses));
    put(entry, "file", absl::StrCat(state.file(root), uri));
    errors.items.push_back(std::move(entry));
    pages.insert(holder);
  }
  if (!errors.items.empty()) put(http, "errors", std::move(errors));
  return pages;
}

}  // namespace sluice::convert::nginx
