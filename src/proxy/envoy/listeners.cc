#include "proxy/envoy/listeners.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "proxy/common/suggestions.h"
#include "proxy/config/model/host_pattern.h"
#include "proxy/convert/common/ordering.h"
#include "proxy/envoy/access_logs.h"
#include "proxy/envoy/http_connection_manager.h"
#include "proxy/envoy/route_match.h"
#include "proxy/envoy/tls.h"

namespace sluice::envoy {
namespace {

using config::Node;

// A filter chain: who gets it, and what it is.
struct Chain {
  Message message;
  bool is_default = false;
  std::vector<std::string> names;  // SNI; empty: all.
  std::vector<std::string> alpn;
  Message proxy;  // An HttpConnectionManager or a TcpProxy.
  Message tls;    // A DownstreamTlsContext, or nothing.
  uint64_t max_connections = 0;
  std::optional<ListenerTls> made_tls;   // With `tls`, unless there is no certificate.
  std::optional<MappedManager> manager;  // With HTTP.

  bool is_http() const { return proxy.type().ends_with(".HttpConnectionManager"); }
};

size_t specificity(const Chain& chain) {
  size_t least = SIZE_MAX;
  for (const std::string& name : chain.names)
    least = std::min(least, name.starts_with('*') ? name.size() : SIZE_MAX - 1);
  return chain.names.empty() ? 0 : least;
}

class ListenerMapper {
 public:
  ListenerMapper(const Message& listener, const std::string& name, NameTable& names, MappingState& state)
      : listener_(listener), name_(names.new_name(name)), names_(names), state_(state) {}

  // Returns one listener, or one for each filter chain, which share their addresses. Returns none, with a finding, if
  // it has to be left out.
  std::vector<Node> map() {
    if (!map_addresses() || !read_chains() || !map_listener_filters()) return {};
    put_number(common_, "backlog", listener_, "tcp_backlog_size", 1, 65535);
    for (Chain& chain : chains_) map_chain_options(chain);
    std::vector<Node> all;
    if ((!are_alike() || have_overlapping_hosts()) && can_be_split()) {
      is_split_ = true;
      for (const Chain& chain : std::exchange(chains_, {})) {
        chains_ = {chain};
        map_chains(name_of(chain), all);
      }
    } else if (are_of_one_kind()) {
      map_chains(name_, all);
    }
    return all;
  }

 private:
  void map_chains(const std::string& name, std::vector<Node>& all) {
    is_weaker_ = false;
    out_ = map_node();
    put(out_, "name", name);
    for (size_t i = 0; i < common_.keys.size(); ++i) put(out_, common_.keys[i].text, common_.items[i]);
    if (is_split_) put_words(out_, "server_names", deep_hosts(chains_.front().names));
    uint64_t most = 0;
    for (const Chain& chain : chains_) most = std::max(most, chain.max_connections);
    if (most > 0) put(out_, "max_connections", absl::StrCat(most));
    if (chains_.front().is_http() ? map_http() : map_tcp()) all.push_back(std::move(out_));
  }

  // The chain for all other names has the name of the listener.
  std::string name_of(const Chain& chain) {
    if (chain.names.empty()) return name_;
    const std::string own = chain.message.text("name");
    return names_.new_name(absl::StrCat(name_, "-", own.empty() ? chain.names.front() : own));
  }

  // ---- Whether chains can be one listener

  // What a chain has that its listener has once.
  void map_chain_options(Chain& chain) {
    if (chain.tls) {
      chain.made_tls = listener_tls(chain.tls, chain.is_http(), state_);
      if (chain.made_tls) {
        put_duration(chain.made_tls->out, "handshake_timeout", chain.message, "transport_socket_connect_timeout");
      }
    }
    if (chain.is_http()) chain.manager = map_manager(chain.proxy, static_cast<bool>(chain.tls), state_);
  }

  static bool have_same_kind(const Chain& a, const Chain& b) { return a.is_http() == b.is_http() && !a.tls == !b.tls; }

  static bool have_same_options(const Chain& a, const Chain& b) {
    if (!have_same_kind(a, b)) return false;
    if (a.made_tls && b.made_tls && !same_value(without_certificates(*a.made_tls), without_certificates(*b.made_tls))) {
      return false;
    }
    if (!a.is_http()) return a.proxy.text("idle_timeout") == b.proxy.text("idle_timeout");
    return a.manager->codec == b.manager->codec && same_value(a.manager->http, b.manager->http);
  }

  static Node without_certificates(const ListenerTls& tls) {
    Node rest = tls.out;
    remove_key(rest, "certificates");
    return rest;
  }

  bool are_alike() const {
    return std::all_of(chains_.begin(), chains_.end(),
                       [&](const Chain& chain) { return have_same_options(chain, chains_.front()); });
  }

  // Whether the routes of one chain could take requests of another one. In Envoy they cannot: the server name has
  // chosen the chain, whatever the host of the request is.
  bool have_overlapping_hosts() const {
    if (chains_.size() == 1 || !chains_.front().is_http() || !chains_.front().tls) return false;
    std::vector<std::string> names;
    for (const Chain& chain : chains_) {
      if (chain.names.empty()) return true;
      names.insert(names.end(), chain.names.begin(), chain.names.end());
    }
    return std::any_of(names.begin(), names.end(), [&](const std::string& wide) {
      return std::any_of(names.begin(), names.end(),
                         [&](const std::string& name) { return name != wide && host_covers(wide, name); });
    });
  }

  // Whether the server name alone can choose between listeners that have one chain each.
  bool can_be_split() const {
    std::vector<std::string> names;
    size_t without = 0;
    for (const Chain& chain : chains_) {
      const bool has_names = chain.tls || !chain.is_http();  // Clients of HTTP without TLS send none.
      if (!chain.alpn.empty() || (!chain.names.empty() && !has_names)) return false;
      without += chain.names.empty() ? 1 : 0;
      names.insert(names.end(), chain.names.begin(), chain.names.end());
    }
    std::sort(names.begin(), names.end());
    return without <= 1 && std::adjacent_find(names.begin(), names.end()) == names.end();
  }

  bool are_of_one_kind() {
    const bool same = std::all_of(chains_.begin(), chains_.end(),
                                  [&](const Chain& chain) { return have_same_kind(chain, chains_.front()); });
    return same || refuse("filter_chains",
                          "all must have TLS or none, and all must be for HTTP or none, unless they are told apart by "
                          "`server_names` alone");
  }

  bool refuse(std::string_view field, std::string_view message) {
    listener_.refuse(field, absl::StrCat(message, ": the listener is left out"));
    return false;
  }

  bool map_addresses() {
    std::vector<std::string> all;
    if (std::string address = address_text(listener_, "address"); !address.empty()) all.push_back(std::move(address));
    for (const Message& more : listener_.subs("additional_addresses")) {
      if (std::string address = address_text(more, "address"); !address.empty()) all.push_back(std::move(address));
    }
    if (all.empty()) return refuse("address", "there is no address");
    if (!listener_.flag("bind_to_port", true)) return refuse("bind_to_port", "it has no socket of its own");
    put_words(common_, "address", all);
    return true;
  }

  // ---- Filter chains ----

  bool read_match(const Message& message, Chain& chain) {
    const Message match = message.sub("filter_chain_match");
    if (!match) return true;
    for (const std::string_view field :
         {"destination_port", "prefix_ranges", "address_suffix", "direct_source_prefix_ranges", "source_type",
          "source_prefix_ranges", "source_ports"}) {
      if (match.has(field)) return false;  // The table refuses it.
    }
    for (const std::string& name : match.texts("server_names")) {
      const std::string lower = absl::AsciiStrToLower(name);
      if (!config::HostPattern::parse(lower).ok()) {
        match.refuse("server_names", absl::StrCat("there is no counterpart of ", config::in_quotes(name)));
        continue;
      }
      chain.names.push_back(lower);
    }
    if (match.has("server_names") && chain.names.empty()) return false;
    chain.alpn = match.texts("application_protocols");
    return true;
  }

  bool read_tls(const Message& message, Chain& chain) {
    const Message socket = message.sub("transport_socket");
    if (!socket) return true;
    const Message options = socket.any("typed_config");
    if (options.type().ends_with(".DownstreamTlsContext")) {
      chain.tls = options;
      return true;
    }
    if (options.type().ends_with(".RawBuffer") || socket.text("name") == "envoy.transport_sockets.raw_buffer")
      return true;
    socket.refuse("typed_config",
                  absl::StrCat("there is no counterpart of ", config::in_quotes(socket.any_type("typed_config"))));
    return false;
  }

  bool read_filters(const Message& message, Chain& chain) {
    for (const Message& filter : message.subs("filters")) {
      const Message options = filter.any("typed_config");
      const std::string_view type = options.type();
      if (type.ends_with(".ConnectionLimit")) {
        chain.max_connections = options.number("max_connections").value_or(0);
      } else if (type.ends_with(".HttpConnectionManager") || type.ends_with(".TcpProxy")) {
        chain.proxy = options;
      } else {
        filter.refuse("typed_config",
                      absl::StrCat("there is no counterpart of ", config::in_quotes(filter.any_type("typed_config"))));
        return false;
      }
    }
    return static_cast<bool>(chain.proxy);
  }

  void read_chain(const Message& message, bool is_default) {
    Chain chain{.message = message, .is_default = is_default};
    if (read_match(message, chain) && read_tls(message, chain) && read_filters(message, chain)) {
      chains_.push_back(std::move(chain));
    } else {
      message.refuse("", "the filter chain is left out");
    }
  }

  bool read_chains() {
    for (const Message& message : listener_.subs("filter_chains")) read_chain(message, false);
    if (const Message message = listener_.sub("default_filter_chain")) read_chain(message, true);
    if (chains_.empty()) return refuse("filter_chains", "there is none that can be mapped");
    convert::sort_in_order(chains_, [](const Chain& a, const Chain& b) {
      return a.is_default != b.is_default ? b.is_default : specificity(a) > specificity(b);
    });
    return true;
  }

  bool map_listener_filters() {
    for (const Message& filter : listener_.subs("listener_filters")) {
      const std::string type = filter.any_type("typed_config");
      const std::string name = type.empty() ? filter.text("name") : type;
      const Message options = filter.any("typed_config");
      if (options.type().ends_with(".ProxyProtocol") || name == "envoy.filters.listener.proxy_protocol") {
        map_proxy_protocol(options);
      } else if (!options && !name.ends_with("_inspector")) {
        filter.refuse("typed_config", absl::StrCat("there is no counterpart of ", config::in_quotes(name)));
      }
    }
    return true;
  }

  void map_proxy_protocol(const Message& options) {
    Node made = map_node();
    const bool optional = options.flag("allow_requests_without_proxy_protocol");
    put(made, "accept", optional ? "optional" : "required");
    if (optional) {
      put(made, "trusted", list_node({"0.0.0.0/0", "::/0"}));
      options.ignore("allow_requests_without_proxy_protocol",
                     "any client can say that it has another address, as in Envoy: narrow `trusted`");
    }
    put_duration(made, "timeout", listener_, "listener_filters_timeout");
    put(common_, "proxy_protocol", std::move(made));
  }

  // ---- TCP ----

  bool map_tcp() {
    if (chains_.front().tls && !map_tls(chains_, false)) return false;
    const Chain& first = chains_.front();
    const bool plain = is_split_ || (chains_.size() == 1 && first.names.empty() && first.alpn.empty());
    Node tcp = map_node(), routes = list_node();
    for (const Chain& chain : chains_) {
      const std::string forward = tcp_target(chain.proxy);
      if (forward.empty()) continue;
      if (plain) {
        put(tcp, "forward", forward);
        break;
      }
      Node route = map_node(), match = map_node();
      put_words(match, "sni", deep_hosts(chain.names));
      put_words(match, "alpn", chain.alpn);
      const bool all = match.keys.empty();
      if (!all) put(route, "match", std::move(match));
      put(route, "forward", forward);
      routes.items.push_back(std::move(route));
      if (all) break;
    }
    if (plain ? tcp.keys.empty() : routes.items.empty()) {
      listener_.report("filter_chains", "no cluster can be used: the listener is left out",
                       state_.resources.severity_of_missing());
      return false;
    }
    if (!plain) put(tcp, "routes", std::move(routes));
    put_duration(tcp, "idle_timeout", first.proxy, "idle_timeout");
    put_duration(tcp, "max_duration", first.proxy, "max_downstream_connection_duration");
    put_duration(tcp, "inspect_timeout", listener_, "listener_filters_timeout");
    const bool inspects = !plain || (is_split_ && !first.tls);
    if (!inspects || tcp.find("inspect_timeout") == nullptr || tcp.find("inspect_timeout")->text == "0")
      remove_key(tcp, "inspect_timeout");
    put_buffer(tcp);
    put_access_log(first.proxy, tcp);
    report_differences("idle_timeout");
    put(out_, "tcp", std::move(tcp));
    return true;
  }

  std::string tcp_target(const Message& proxy) {
    const std::string cluster = proxy.text("cluster");
    UsedUpstream* const upstream = state_.find_upstream(cluster);
    if (upstream == nullptr || !upstream->mapped->is_usable) {
      proxy.report("cluster",
                   absl::StrCat("there is no cluster ", config::in_quotes(cluster), " with endpoints",
                                state_.resources.may_follow ? " yet" : "", ": its connections are closed"),
                   state_.resources.severity_of_missing());
      return "";
    }
    if (const auto attempts = proxy.number("max_connect_attempts")) {
      put(upstream->use.keys, "connect_attempts", absl::StrCat(std::clamp<uint64_t>(*attempts, 1, 100)));
    }
    return upstream->mapped->name;
  }

  void put_buffer(Node& to) {
    put_number(to, "buffer_high", listener_, "per_connection_buffer_limit_bytes", 4096, 1U << 30);
  }

  // Options of all chains must be the same, since a listener has them once.
  void report_differences(std::string_view field) {
    for (const Chain& chain : chains_) {
      if (chain.proxy.text(field) != chains_.front().proxy.text(field)) {
        chain.proxy.refuse(field, "a listener has one value for all filter chains: that of the first is used");
      }
    }
  }

  // ---- TLS ----

  // Merges the contexts of the chains: certificates are chosen by the names in them.
  bool map_tls(const std::vector<Chain>& chains, bool http) {
    std::optional<Node> all;
    // The certificate of the chain for all other names is the default.
    std::vector<const Chain*> order;
    for (const Chain& chain : chains) order.push_back(&chain);
    convert::sort_in_order(order, [](const Chain* a, const Chain* b) { return a->names.empty() > b->names.empty(); });
    for (const Chain* const chain : order) {
      if (!chain->made_tls) continue;
      is_weaker_ = is_weaker_ || chain->made_tls->is_weaker;
      if (!all) {
        all = chain->made_tls->out;
        continue;
      }
      merge_tls(*chain, chain->made_tls->out, *all);
    }
    if (!all) return refuse("filter_chains", "there is no certificate");
    if (is_weaker_ && !http) return refuse("filter_chains", "clients could get in that must not");
    put(out_, "tls", *std::move(all));
    return true;
  }

  void merge_tls(const Chain& chain, const Node& tls, Node& all) {
    Node rest = tls, known = all;
    remove_key(rest, "certificates");
    remove_key(known, "certificates");
    if (!same_value(rest, known)) {
      chain.message.refuse(
          "transport_socket",
          "a listener has one `tls` for all filter chains, but for certificates: that of another chain is used");
      // A chain that demands more of its clients than the listener does would be open.
      is_weaker_ = is_weaker_ || (rest.find("client_ca") != nullptr && known.find("client_ca") == nullptr);
    }
    for (const Node& certificate : tls.find("certificates")->items) {
      std::vector<Node>& list = list_at(all, "certificates").items;
      const auto same = [&](const Node& each) { return same_value(each, certificate); };
      if (std::none_of(list.begin(), list.end(), same)) list.push_back(certificate);
    }
  }

  // ---- HTTP ----

  static void limit_to_names(const std::vector<std::string>& names, std::vector<HostRoutes>& lists) {
    if (names.empty()) return;
    for (HostRoutes& list : lists) {
      if (list.hosts.empty()) {
        list.hosts = names;
        continue;
      }
      std::vector<std::string> kept;
      for (const std::string& host : list.hosts) {
        for (const std::string& name : names) {
          if (name == host || host_covers(name, host)) {
            kept.push_back(host);
          } else if (host_covers(host, name)) {
            kept.push_back(name);
          }
        }
      }
      std::sort(kept.begin(), kept.end());
      kept.erase(std::unique(kept.begin(), kept.end()), kept.end());
      list.hosts = std::move(kept);
    }
    std::erase_if(lists, [](const HostRoutes& list) { return list.hosts.empty(); });
  }

  bool has_clients_with_names() const {
    const Node* const tls = out_.find("tls");
    return tls != nullptr && tls->find("client_ca") != nullptr;
  }

  // Where no client has a certificate, nobody has a name.
  static void drop_routes_for_names(std::vector<HostRoutes>& lists) {
    for (HostRoutes& list : lists) {
      std::erase_if(list.routes, [](const MappedRoute& route) { return !route.conditions.peers.empty(); });
    }
  }

  void check_chain_choice() {
    if (is_split_ || (chains_.size() == 1 && chains_.front().names.empty())) return;
    for (const Chain& chain : chains_) {
      if (!chain.alpn.empty())
        chain.message.ignore("filter_chain_match.application_protocols", "HTTP/1.1 and HTTP/2 have the same routes");
    }
    listener_.ignore("filter_chains",
                     "requests are told apart by their host, not by the server name of TLS; clients with other server "
                     "names get the first certificate");
  }

  bool map_http() {
    const bool has_tls = static_cast<bool>(chains_.front().tls);
    if (has_tls && !map_tls(chains_, true)) return false;
    std::vector<HostRoutes> lists;
    std::optional<MappedManager> first;
    for (const Chain& chain : chains_) {
      MappedManager manager = *chain.manager;
      if (!is_split_) limit_to_names(chain.names, manager.lists);
      if (!is_split_ && !chain.names.empty() && (manager.lists.empty() || !covers_all(manager.lists, chain.names))) {
        manager.lists.push_back({.hosts = chain.names, .routes = {}});  // Of other hosts: closed below.
      }
      std::move(manager.lists.begin(), manager.lists.end(), std::back_inserter(lists));
      is_weaker_ = is_weaker_ || manager.is_locked;
      if (!first) {
        first = std::move(manager);
      } else if (!same_value(first->http, manager.http)) {
        chain.proxy.refuse("", "a listener has one set of options for all filter chains: that of the first is used");
      }
    }
    check_chain_choice();
    if (!has_clients_with_names()) drop_routes_for_names(lists);
    close_host_routes(lists);
    std::erase_if(lists, [](const HostRoutes& list) { return list.routes.empty(); });
    Node http = map_node();
    Node routes = route_list_node(lists, first->readiness_paths);
    if (routes.items.empty()) put(map_at(routes.items.emplace_back(map_node()), "respond"), "status", "404");
    if (is_weaker_) put(http, "deny", list_node({"0.0.0.0/0", "::/0"}));
    for (size_t i = 0; i < first->http.keys.size(); ++i) put(http, first->http.keys[i].text, first->http.items[i]);
    put_buffer(http);
    put(http, "routes", std::move(routes));
    put_codec(first->codec);
    put(out_, "http", std::move(http));
    return true;
  }

  static bool covers_all(const std::vector<HostRoutes>& lists, const std::vector<std::string>& names) {
    return std::all_of(names.begin(), names.end(), [&](const std::string& name) {
      return std::any_of(lists.begin(), lists.end(), [&](const HostRoutes& list) {
        return list.is_closed() && std::find(list.hosts.begin(), list.hosts.end(), name) != list.hosts.end();
      });
    });
  }

  void put_codec(const std::string& codec) {
    if (codec.empty()) return;
    if (out_.find("tls") != nullptr) {
      put(map_at(out_, "tls"), "alpn", list_node({codec == "HTTP1" ? "http/1.1" : "h2"}));
    } else {
      chains_.front().proxy.ignore("codec_type", "without TLS clients may use HTTP/1.1 and HTTP/2");
    }
  }

  const Message& listener_;
  const std::string name_;
  NameTable& names_;
  MappingState& state_;
  std::vector<Chain> chains_;  // Of the listener that is being made.
  Node common_ = map_node();   // What all listeners that are made have.
  Node out_ = map_node();
  bool is_split_ = false;  // Whether each chain becomes a listener.
  bool is_weaker_ = false;
};

}  // namespace

Node map_listeners(MappingState& state, ListenerNames& names) {
  static const MessageRule* const rule = find_message_rule("envoy.config.listener.v3.Listener");
  Node all = list_node();
  NameTable free_names;
  for (size_t i = 0; i < state.resources.listeners.size(); ++i) {
    const Node& node = *state.resources.listeners[i];
    Subject subject{*state.findings, "listener", ""};
    const Node* const named = node.kind == Node::Kind::kMap ? node.find("name") : nullptr;
    subject.name = named != nullptr && !named->text.empty() ? named->text : absl::StrCat("listener-", i);
    const Message listener(node, *rule, subject, "");
    if (!listener) continue;
    for (Node& made : ListenerMapper(listener, subject.name, free_names, state).map()) {
      names.emplace(made.find("name")->text, subject.name);
      all.items.push_back(std::move(made));
    }
  }
  return all;
}

}  // namespace sluice::envoy
