#include "proxy/envoy/http_connection_manager.h"

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "proxy/common/suggestions.h"
#include "proxy/envoy/access_logs.h"
#include "proxy/envoy/header_changes.h"
#include "proxy/envoy/http_filters.h"
#include "proxy/envoy/path_change.h"
#include "proxy/envoy/values.h"

namespace sluice::envoy {
namespace {

using config::Node;

class ManagerMapper {
 public:
  ManagerMapper(const Message& manager, MappingState& state) : manager_(manager), state_(state), http_(made_.http) {}

  MappedManager map(bool has_tls) {
    const HttpFilters filters(manager_, state_);
    map_codec();
    map_client();
    map_ids();
    map_limits();
    map_http1();
    map_http2();
    map_paths();
    map_upgrades();
    map_server();
    put(http_, "via", manager_.text("via"));
    put_access_log(manager_, http_);
    for (size_t i = 0; i < filters.http().keys.size(); ++i) {
      put(http_, filters.http().keys[i].text, filters.http().items[i]);
    }
    made_.readiness_paths = filters.readiness_paths();
    made_.is_locked = filters.is_locked();
    map_routes(has_tls, filters);
    allow_upgrades_of_routes();
    drop_unused_descriptors();
    return std::move(made_);
  }

 private:
  void map_codec() {
    const std::string codec = manager_.text("codec_type");
    if (codec == "HTTP1" || codec == "HTTP2") made_.codec = codec;
    if (codec == "HTTP3") manager_.refuse("codec_type", "HTTP/3 is not spoken");
  }

  // Where the client's address comes from.
  void map_client() {
    const uint64_t hops = std::min<uint64_t>(manager_.number("xff_num_trusted_hops").value_or(0), 31);
    const bool remote = manager_.flag("use_remote_address");
    if (!remote || manager_.flag("skip_xff_append")) {
      put(http_, "forwarded_for", "off");
      Node scheme = map_node();  // Which Envoy adds in any case.
      put(scheme, "name", "x-forwarded-proto");
      put(scheme, "set", "%{scheme}");
      list_at(http_, "request_headers").items.push_back(std::move(scheme));
    }
    // Without use_remote_address Envoy believes the last entry of the field.
    const uint64_t trusted = remote ? hops : hops + 1;
    if (trusted > 0) put(http_, "trusted_hops", absl::StrCat(trusted));
    const std::string details = manager_.text("forward_client_cert_details");
    if (details.empty() || details == "SANITIZE") {
      remove_field("x-forwarded-client-cert");
    } else if (details == "SANITIZE_SET" || details == "APPEND_FORWARD") {
      remove_field("x-forwarded-client-cert");
      manager_.refuse("forward_client_cert_details", "upstreams do not get the certificate: see `%{peer}`");
    }
  }

  void remove_field(std::string_view name) {
    Node change = map_node();
    put(change, "name", name);
    put(change, "remove", "true");
    list_at(http_, "request_headers").items.push_back(std::move(change));
  }

  void map_ids() {
    if (!manager_.flag("generate_request_id", true)) return;
    const bool keep = manager_.flag("preserve_external_request_id") || !manager_.flag("use_remote_address");
    const bool respond = manager_.flag("always_set_request_id_in_response");
    if (!keep && !respond) {
      put(map_at(http_, "request_id"), "header", "x-request-id");
      return;
    }
    Node& id = map_at(http_, "request_id");
    put(id, "header", "x-request-id");
    if (keep) put(id, "accept", "always");
    if (respond) put(id, "respond", "true");
  }

  void map_limits() {
    const Message common = manager_.sub("common_http_protocol_options");
    put_timeout(http_, "idle_timeout", common, "idle_timeout");
    put_duration(http_, "max_connection_age", common, "max_connection_duration");
    put_number(http_, "max_fields", common, "max_headers_count", 1, 1000);
    put_duration(http_, "request_timeout", manager_, "request_timeout");
    put_duration(http_, "request_timeout", common, "max_stream_duration");
    put_timeout(http_, "header_timeout", manager_, "request_headers_timeout");
    put_timeout(http_, "stream_idle_timeout", manager_, "stream_idle_timeout");
    if (const auto kib = manager_.number("max_request_headers_kb")) {
      if (*kib > 64) manager_.ignore("max_request_headers_kb", "the largest head is 64KiB");
      put(http_, "max_head", absl::StrCat(std::clamp<uint64_t>(*kib, 1, 64), "KiB"));
    }
    if (common.has("max_requests_per_connection")) {
      put_number(map_at(http_, "http1"), "max_requests", common, "max_requests_per_connection");
      put_number(map_at(http_, "http2"), "max_requests", common, "max_requests_per_connection");
    }
  }

  void map_http1() {
    manager_.sub("http_protocol_options");
    const std::string underscores =
        manager_.sub("common_http_protocol_options").text("headers_with_underscores_action");
    if (underscores.empty() || underscores == "ALLOW") put(map_at(http_, "http1"), "allow_underscores", "true");
    if (underscores == "DROP_HEADER") {
      manager_.sub("common_http_protocol_options").ignore("headers_with_underscores_action", "such requests get 400");
    }
  }

  void map_http2() {
    const Message options = manager_.sub("http2_protocol_options");
    if (!options) return;
    Node http2 = http_.find("http2") != nullptr ? *http_.find("http2") : map_node();
    put_number(http2, "max_streams", options, "max_concurrent_streams", 1, 65535);
    put_number(http2, "stream_window", options, "initial_stream_window_size", 4096, 1U << 30);
    put_number(http2, "connection_window", options, "initial_connection_window_size", 65536, 1U << 30);
    if (!http2.keys.empty()) put(http_, "http2", std::move(http2));
  }

  void map_paths() {
    Node paths = map_node();
    const std::string slashes = manager_.text("path_with_escaped_slashes_action");
    if (slashes == "UNESCAPE_AND_REDIRECT" || slashes == "UNESCAPE_AND_FORWARD") {
      put(paths, "escaped_slashes", "decode");
      if (slashes == "UNESCAPE_AND_REDIRECT") {
        manager_.ignore("path_with_escaped_slashes_action", "the request is forwarded, not redirected");
      }
    } else if (slashes != "REJECT_REQUEST") {
      put(paths, "escaped_slashes", "keep");
    }
    if (manager_.flag("merge_slashes")) put(paths, "merge_slashes", "true");
    if (!paths.keys.empty()) put(http_, "paths", std::move(paths));
  }

  void map_upgrades() {
    bool websocket = false;
    for (const Message& upgrade : manager_.subs("upgrade_configs")) {
      const std::string type = absl::AsciiStrToLower(upgrade.text("upgrade_type"));
      if (!upgrade.flag("enabled", true)) continue;
      if (type == "websocket") {
        websocket = true;
      } else if (type == "connect") {
        put(http_, "allow_connect", "true");
      } else {
        upgrade.refuse("upgrade_type", absl::StrCat("there is no counterpart of ", config::in_quotes(type)));
      }
    }
    if (!websocket) put(http_, "websocket", "false");
    if (websocket) put_timeout(http_, "tunnel_timeout", manager_, "stream_idle_timeout");
  }

  // A route may take websockets where the connection manager does not; here a listener takes them, or none of its
  // routes.
  void allow_upgrades_of_routes() {
    if (http_.find("websocket") == nullptr) return;  // All routes have them already.
    size_t forwarding = 0, taking = 0;
    for (const HostRoutes& list : made_.lists) {
      for (const MappedRoute& route : list.routes) {
        forwarding += route.forwards() ? 1 : 0;
        taking += route.takes_websocket ? 1 : 0;
      }
    }
    if (taking == 0) return;
    if (taking < forwarding) manager_.ignore("", "some routes take websockets: all routes of the listener do");
    remove_key(http_, "websocket");
    put_timeout(http_, "tunnel_timeout", manager_, "stream_idle_timeout");
  }

  void map_server() {
    const std::string name = manager_.text("server_name");
    const std::string how = manager_.text("server_header_transformation");
    if (name.empty() || how == "PASS_THROUGH") return;
    if (how == "APPEND_IF_ABSENT")
      return manager_.refuse("server_header_transformation", "a field is set in all responses, or in none");
    Node change = map_node();
    put(change, "name", "server");
    put(change, "set", name);
    list_at(http_, "response_headers").items.push_back(std::move(change));
  }

  void map_routes(bool has_tls, const HttpFilters& filters) {
    Message configuration = manager_.sub("route_config");
    Subject subject{*state_.findings, "route configuration", ""};
    if (const Message rds = manager_.sub("rds")) {
      subject.name = rds.text("route_config_name");
      const Node* const found = state_.find_routes(subject.name);
      if (found == nullptr) {
        rds.refuse("route_config_name",
                   absl::StrCat("there is no route configuration ", config::in_quotes(subject.name),
                                ": give the file that has it, too"));
        return;
      }
      static const MessageRule* const rule = find_message_rule("envoy.config.route.v3.RouteConfiguration");
      configuration = Message(*found, *rule, subject, "");
    }
    if (!configuration) return manager_.refuse("", "there are no routes: requests get 404");
    made_.lists = map_virtual_hosts(
        {.state = state_, .has_tls = has_tls, .filters = filters, .virtual_host = {}, .configuration = configuration});
    for (HostRoutes& list : made_.lists) {
      if (filters.apply(list.routes)) continue;
      manager_.refuse(
          "http_filters",
          "the rules of a filter concern a part of a route that cannot be said: the listener refuses all requests");
      made_.is_locked = true;
    }
  }

  // A service without descriptors, and descriptors without a service, have no effect.
  void drop_unused_descriptors() {
    bool used = false;
    for (const HostRoutes& list : made_.lists) {
      for (const MappedRoute& route : list.routes) used = used || route.out.find("rate_limit_descriptors") != nullptr;
    }
    if (!used) return remove_key(http_, "global_rate_limits");
    if (http_.find("global_rate_limits") != nullptr) return;
    for (HostRoutes& list : made_.lists) {
      for (MappedRoute& route : list.routes) remove_key(route.out, "rate_limit_descriptors");
    }
  }

  const Message& manager_;
  MappingState& state_;
  MappedManager made_;
  Node& http_;
};

Node one_route_node(const MappedRoute& route, const std::vector<std::string>& hosts, bool last, NameTable& names) {
  Node out = map_node();
  if (!route.name.empty()) put(out, "name", names.new_name(route.name));
  Node match = route.conditions.match_node(hosts);
  if (match.keys.empty() && !last) put(map_at(match, "path"), "prefix", "/");
  if (!match.keys.empty()) put(out, "match", std::move(match));
  for (size_t i = 0; i < route.out.keys.size(); ++i) put(out, route.out.keys[i].text, route.out.items[i]);
  if (!route.change_key.empty()) {
    put_prefix_change(route.changed, route.replacement, route.conditions.path, map_at(out, route.change_key));
  }
  return out;
}

}  // namespace

MappedManager map_manager(const Message& manager, bool has_tls, MappingState& state) {
  return ManagerMapper(manager, state).map(has_tls);
}

Node route_list_node(const std::vector<HostRoutes>& lists, const std::vector<std::string>& readiness_paths) {
  NameTable names;
  Node all = list_node();
  for (const std::string& path : readiness_paths) {
    Node route = map_node();
    put(map_at(map_at(route, "match"), "path"), "exact", path);
    put(route, "readiness", "true");
    all.items.push_back(std::move(route));
  }
  for (const HostRoutes& list : lists) {
    for (const MappedRoute& route : list.routes) {
      const bool last = &list == &lists.back() && &route == &list.routes.back();
      all.items.push_back(one_route_node(route, list.hosts, last, names));
    }
  }
  return all;
}

}  // namespace sluice::envoy
