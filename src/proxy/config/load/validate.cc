#include "proxy/config/load/validate.h"

#include <algorithm>
#include <bit>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "proxy/common/suggestions.h"
#include "proxy/config/load/validate_addresses.h"
#include "proxy/config/load/validate_admin.h"
#include "proxy/config/load/validate_http.h"
#include "proxy/config/load/validate_log.h"
#include "proxy/config/load/validate_rate_limit.h"
#include "proxy/config/load/validate_route.h"
#include "proxy/config/load/validate_server_tls.h"
#include "proxy/config/load/validate_upstream.h"
#include "proxy/config/model/name.h"
#include "proxy/config/model/server_name.h"
#include "proxy/router/http_router.h"

namespace sluice::config {
namespace {

constexpr size_t kMaxAlpnBytes = 255;  // RFC 7301: one length byte

constexpr std::string_view kAlpnHttp1 = "http/1.1";
constexpr std::string_view kAlpnHttp2 = "h2";

// The name in Via (RFC 9110 section 7.6.3) is a token, or a host with an optional port.
bool is_via_char(unsigned char c) {
  return absl::ascii_isalnum(c) ||
         std::string_view("!#$%&'*+-.^_`|~:[]").find(static_cast<char>(c)) != std::string_view::npos;
}

template <class Named>
void check_names(const std::vector<Named>& list, std::string_view list_path, Report& report) {
  std::map<std::string_view, size_t> seen;
  for (size_t i = 0; i < list.size(); ++i) {
    const std::string path = absl::StrCat(item_path(list_path, i), ".name");
    const std::string& name = list[i].name;
    if (!is_name(name)) {
      report.error(path, absl::StrCat("expected ", kNameRule, ", got ", in_quotes(name)));
      continue;
    }
    const auto [first, inserted] = seen.emplace(name, i);
    if (inserted) continue;
    report.error(path, absl::StrCat(in_quotes(name), " is already the name of ",
                                    report.with_place(item_path(list_path, first->second)), "; names must be unique"));
  }
}

class Checker {
 public:
  Checker(const Config& config, Report& report, Checked& checked)
      : config_(config), report_(report), checked_(checked) {
    for (const Upstream& upstream : config.upstreams) {
      upstream_names_.push_back(upstream.name);
      by_name_.emplace(upstream.name, &upstream);
      names_known_ = names_known_ && is_name(upstream.name);
    }
    std::sort(upstream_names_.begin(), upstream_names_.end());
  }

  void check() {
    if (!std::has_single_bit(config_.memory.ring_entries)) {
      report_.error("memory.ring_entries", absl::StrCat("must be a power of two, got ", config_.memory.ring_entries,
                                                        "; the next is ", std::bit_ceil(config_.memory.ring_entries)));
    }
    check_overload(config_.overload.memory);
    if (config_.overload.delay.refuse == Priority::kHigh) {
      report_.error("overload.delay.refuse", "expected `low` or `normal`: requests of high priority are never refused");
    }
    if (config_.listeners.empty()) report_.error("listeners", "expected at least one listener");
    check_names(config_.listeners, "listeners", report_);
    check_names(config_.upstreams, "upstreams", report_);
    check_names(config_.rate_limits, "rate_limits", report_);
    if (!checked_.listeners) {
      checked_.http_forwards.clear();
      check_rate_limits(config_, report_);
      for (size_t i = 0; i < config_.listeners.size(); ++i) {
        check_listener(config_.listeners[i], item_path("listeners", i));
      }
      check_addresses(config_, report_);
      check_admin(config_, report_);
    }
    for (size_t i = 0; i < config_.upstreams.size(); ++i) check_upstream_unless_known(i);
    if (!report_.ok() || checked_.listeners) return;
    for (size_t i = 0; i < config_.listeners.size(); ++i) {
      if (config_.listeners[i].http) check_reachable(*config_.listeners[i].http, item_path("listeners", i) + ".http");
    }
  }

 private:
  void check_upstream_unless_known(size_t index) {
    const Upstream& upstream = config_.upstreams[index];
    const bool is_known = index < checked_.upstreams.size() && checked_.upstreams[index];
    if (is_known && checked_.listeners) return;
    const std::string path = item_path("upstreams", index);
    if (!is_known) check_upstream(upstream, path);
    // Of several with one name, the first is meant.
    const bool is_first = by_name_.find(upstream.name)->second == &upstream;
    const auto forward = checked_.http_forwards.find(upstream.name);
    check_upstream_protocol(upstream, is_first && forward != checked_.http_forwards.end() ? forward->second : "", path);
  }

  void check_overload(const OverloadMemory& memory) {
    const auto check_above = [this](const char* key, uint32_t mark, const char* lower_key, uint32_t lower) {
      if (mark > lower) return;
      report_.error(absl::StrCat("overload.memory.", key),
                    absl::StrCat("must be above `", lower_key, "`, which is ", lower, ", got ", mark));
    };
    check_above("close", memory.close, "reduce", memory.reduce);
    check_above("refuse", memory.refuse, "close", memory.close);
  }

  void check_listener(const Listener& listener, const std::string& path) {
    const ProxyProtocol& proxy = listener.proxy_protocol;
    const bool all_unix = std::all_of(listener.addresses.begin(), listener.addresses.end(), [](const Address& address) {
      return address.is_set() && address.kind() == Address::Kind::kUnix;
    });
    if (proxy.accept == ProxyHeaderIn::kOptional && proxy.trusted.empty() && !all_unix) {
      report_.error(path + ".proxy_protocol.accept",
                    "`optional` lets every client choose the address it seems to come from: list the proxies in front "
                    "under `trusted`, or use `required`");
    }
    if (listener.tls) check_listener_tls(*listener.tls, path + ".tls");
    if (listener.alts) {
      check_alts(*listener.alts, listener.tls.has_value(), path + ".alts");
      if (listener.alts->target_identities.empty()) {
        report_.warn(path + ".alts",
                     listener.alts->handshaker.is_set()
                         ? "without `target_identities` any peer that the handshaker service authenticates is accepted"
                         : "without `target_identities` any peer with a certificate from `peer_ca` is accepted");
      }
    }
    if (listener.tcp && listener.http) {
      report_.error(path,
                    "`tcp` and `http` exclude each other: what is done with a connection depends on its listener");
    }
    if (!listener.tcp && !listener.http) report_.error(path + ".tcp", "expected `tcp` or `http`");
    const bool proven = listener.alts || (listener.tls && listener.tls->client_certificate != ClientCertificate::kOff);
    if (listener.tcp) check_tcp(*listener.tcp, proven, path + ".tcp");
    if (listener.http) check_http(*listener.http, proven, path + ".http");
    if (listener.http && listener.tls) check_http_alpn(listener.tls->alpn, path + ".tls.alpn");
  }

  void check_listener_tls(const ListenerTls& tls, const std::string& path) {
    check_alpn(tls.alpn, path + ".alpn");
    check_server_tls(tls, path, report_);
  }

  void check_upstream_tls(const UpstreamTls& tls, const std::string& path) {
    check_alpn(tls.alpn, path + ".alpn");
    if (tls.verify && tls.server_name.empty() && tls.verify_names.empty()) {
      report_.error(path, "expected `server_name`, which the endpoints' certificates must be for (or `verify: false`)");
    }
    check_verify_names(tls, path + ".verify_names");
    if (!tls.verify && !tls.ca.empty()) report_.error(path + ".ca", "has no effect with `verify: false`");
    if (tls.server_name.empty()) return;
    if (const absl::Status name = check_server_name(tls.server_name); !name.ok()) {
      report_.error(path + ".server_name", name.message());
    }
  }

  void check_verify_names(const UpstreamTls& tls, const std::string& path) {
    if (!tls.verify && !tls.verify_names.empty()) report_.error(path, "has no effect with `verify: false`");
    for (size_t i = 0; i < tls.verify_names.size(); ++i) {
      if (is_uri(tls.verify_names[i]) || check_server_name(tls.verify_names[i]).ok()) continue;
      report_.error(item_path(path, i),
                    absl::StrCat("expected a host name, an IP address or a URI such as spiffe://mesh/app, got ",
                                 in_quotes(tls.verify_names[i])));
    }
  }

  void check_alts(const Alts& alts, bool has_tls, const std::string& path) {
    if (has_tls) report_.error(path, "`tls` and `alts` exclude each other");
    if (alts.handshaker.is_set() == !alts.certificates.empty()) {
      report_.error(path,
                    alts.handshaker.is_set()
                        ? "`handshaker` and `certificates` exclude each other: the service authenticates this side"
                        : "expected `handshaker: HOST:PORT`, or `certificates` with `peer_ca`");
    }
    if (alts.handshaker.is_set()) {
      if (!alts.peer_ca.empty()) report_.error(path + ".peer_ca", "has no effect with `handshaker`");
      check_port(alts.handshaker, path + ".handshaker");
    } else if (!alts.certificates.empty() && alts.peer_ca.empty()) {
      report_.error(path, "expected `peer_ca`, the authorities that the peer's certificate must come from");
    }
    if (alts.certificates.size() > 1) {
      report_.error(item_path(path + ".certificates", 1), "one certificate is enough: ALTS knows no server names");
    }
  }

  // A condition on peers that no client can meet is a mistake.
  template <class Match>
  void check_peer(const std::optional<Match>& match, bool proven, const std::string& path) {
    if (!match || match->peer.empty() || proven) return;
    report_.error(path + ".match.peer",
                  "needs `alts`, or `tls` with `client_certificate`: otherwise clients are not authenticated");
  }

  template <class TcpOrHttp>
  void check_table(const TcpOrHttp& table, const std::string& path) {
    if (table.forward.empty() == table.routes.empty()) {
      report_.error(path, table.forward.empty() ? "expected `forward: NAME` or `routes: [ ... ]`"
                                                : "`forward` and `routes` exclude each other: make it the last of the "
                                                  "routes, without `match`");
    }
  }

  void check_tcp(const Tcp& tcp, bool proven, const std::string& path) {
    if (tcp.buffer_low >= tcp.buffer_high) {
      report_.error(path + ".buffer_low", absl::StrCat("must be below buffer_high (", print_size(tcp.buffer_high),
                                                       "), got ", print_size(tcp.buffer_low)));
    }
    if (tcp.access_log) check_access_log(*tcp.access_log, LogSubject::kConnection, path + ".access_log", report_);
    check_collector(tcp.access_log, path + ".access_log.file");
    check_table(tcp, path);
    if (!tcp.forward.empty()) check_forward(tcp.forward, path + ".forward");
    for (size_t i = 0; i < tcp.routes.size(); ++i) {
      const std::string route_path = item_path(path + ".routes", i);
      check_route(tcp.routes[i], i + 1 == tcp.routes.size(), route_path);
      check_peer(tcp.routes[i].match, proven, route_path);
    }
  }

  void check_route(const TcpRoute& route, bool last, const std::string& path) {
    if (!route.match && !last) {
      report_.error(path, "a route without `match` takes every connection: it must be the last one");
    }
    if (route.match && route.match->sni.empty() && route.match->alpn.empty() && route.match->peer.empty()) {
      report_.error(path + ".match",
                    "expected `sni`, `alpn` or `peer`; for a route that takes everything leave `match` out");
    }
    if (route.match) check_alpn(route.match->alpn, path + ".match.alpn");
    if (!route.forward.empty()) return check_forward(route.forward, path + ".forward");
    report_.error(path + ".forward", "expected the name of an upstream");
  }

  void check_http(const Http& http, bool proven, const std::string& path) {
    check_table(http, path);
    if (!http.forward.empty()) check_http_forward(http.forward, path + ".forward");
    check_field_changes(http.request_headers, path + ".request_headers", report_);
    check_field_changes(http.response_headers, path + ".response_headers", report_);
    for (size_t i = 0; i < http.routes.size(); ++i) {
      const std::string route_path = item_path(path + ".routes", i);
      check_http_route(http.routes[i], http.paths, i + 1 == http.routes.size(), route_path);
      check_peer(http.routes[i].match, proven, route_path);
    }
    if (http.max_start_line > http.max_head) {
      report_.error(path + ".max_start_line", absl::StrCat("must not be above max_head (", print_size(http.max_head),
                                                           "), got ", print_size(http.max_start_line)));
    }
    if (http.http2.stream_window > http.http2.connection_window) {
      report_.error(path + ".http2.stream_window",
                    absl::StrCat("must not be above connection_window (", print_size(http.http2.connection_window),
                                 "), got ", print_size(http.http2.stream_window)));
    }
    if (http.compression) check_compression(*http.compression, path + ".compression", report_);
    if (!std::all_of(http.via.begin(), http.via.end(), is_via_char) || http.via.size() > kMaxNameBytes) {
      report_.error(path + ".via",
                    absl::StrCat("expected a name such as sluice or edge.example.com:443, got ", in_quotes(http.via)));
    }
    check_error_pages(http, path, report_);
    check_collector(http.access_log, path + ".access_log.file");
    if (http.global_rate_limits) check_grpc_forward(http.global_rate_limits->to, path + ".global_rate_limits.to");
    if (http.tracing) {
      check_http_forward(http.tracing->to, path + ".tracing.to");
      check_tracing(http, path + ".tracing", report_);
    }
  }

  void check_collector(const std::optional<AccessLog>& log, const std::string& path) {
    const std::string_view to = log ? otlp_upstream(log->file) : std::string_view();
    if (!to.empty()) check_http_forward(std::string(to), path);
  }

  void check_http_route(const HttpRoute& route, const Paths& paths, bool last, const std::string& path) {
    if (!route.match && !last) {
      report_.error(path, "a route without `match` takes every request: it must be the last one");
    }
    check_route_values(route, paths, path, report_);
    const int actions = (route.forward.empty() ? 0 : 1) + (route.split.empty() ? 0 : 1) + (route.respond ? 1 : 0) +
                        (route.redirect ? 1 : 0) + (route.readiness ? 1 : 0);
    if (actions == 0) {
      report_.error(path, "expected `forward: NAME`, `respond: { status: 404 }` or `redirect: { scheme: https }`");
    } else if (actions > 1) {
      report_.error(path, "`forward`, `split`, `respond`, `redirect` and `readiness` exclude each other");
    }
    if (!route.forward.empty()) check_http_forward(route.forward, path + ".forward");
    for (size_t i = 0; i < route.split.size(); ++i) {
      check_http_forward(route.split[i].forward, item_path(path + ".split", i) + ".forward");
    }
    if (route.forward_auth) check_http_forward(route.forward_auth->to, path + ".forward_auth.to");
    if (route.ext_authz) {
      check_grpc_forward(route.ext_authz->to, path + ".ext_authz.to");
      if (route.forward_auth) report_.error(path, "`forward_auth` and `ext_authz` exclude each other");
    }
    for (size_t i = 0; i < route.mirror.size(); ++i) {
      check_http_forward(route.mirror[i].to, item_path(path + ".mirror", i) + ".to");
    }
  }

  // A route that is never taken is a mistake: usually a broader route precedes it.
  void check_reachable(const Http& http, const std::string& path) {
    const HttpRouter router(http, config_.upstreams);
    for (uint32_t i = 0; i < http.routes.size(); ++i) {
      const std::vector<uint32_t> takers = takers_before(http.routes[i], i, router);
      if (takers.empty()) continue;
      report_.error(
          item_path(path + ".routes", i),
          absl::StrCat("never taken: its requests go to ", report_.with_place(item_path(path + ".routes", takers[0])),
                       takers.size() == 1 ? "" : " and others before it"));
    }
  }

  // The routes before `index` that together match every request for `route`; empty if some requests remain.
  static std::vector<uint32_t> takers_before(const HttpRoute& route, uint32_t index, const HttpRouter& router) {
    if (!route.match) return {};
    // Probe names and paths, which an earlier route matches only if it matches everything that the patterns stand for:
    // no request contains a control character or a star, so the probes match only wildcards and prefixes.
    std::vector<std::string> hosts, paths;
    for (const HostPattern& pattern : route.match->host) {
      hosts.push_back(pattern.text());
      if (pattern.is_deep()) hosts.push_back(absl::StrCat("*.", pattern.text()));
    }
    if (hosts.empty()) hosts.emplace_back();
    if (!route.match->path) {
      paths.emplace_back("*");
    } else if (route.match->path->regex.is_set()) {
      // Stands for all paths of the expression, or is "*" if it matches that. No regex route matches it.
      paths.emplace_back(route.match->path->regex.fits("*") ? "*" : "/\x01");
    } else if (const std::string& exact = route.match->path->exact; !exact.empty()) {
      paths.push_back(exact);
    } else {
      const std::string& prefix = route.match->path->prefix;
      if (!prefix.ends_with('/')) paths.push_back(prefix);
      paths.push_back(absl::StrCat(prefix, prefix.ends_with('/') ? "\x01" : "/\x01"));
    }
    std::vector<uint32_t> takers;
    for (const std::string& host : hosts) {
      for (const std::string& path : paths) {
        const HttpTarget* target = router.route({.host = host, .path = path});
        if (target == nullptr || target->index >= index) return {};
        takers.push_back(target->index);
      }
    }
    std::sort(takers.begin(), takers.end());
    takers.erase(std::unique(takers.begin(), takers.end()), takers.end());
    return takers;
  }

  void check_http_alpn(const std::vector<std::string>& alpn, const std::string& path) {
    for (size_t i = 0; i < alpn.size(); ++i) {
      if (alpn[i] == kAlpnHttp1 || alpn[i] == kAlpnHttp2) continue;
      report_.error(item_path(path, i), absl::StrCat("`http` speaks h2 and http/1.1, got ", in_quotes(alpn[i])));
    }
  }

  void check_alpn(const std::vector<std::string>& alpn, const std::string& path) {
    for (size_t i = 0; i < alpn.size(); ++i) {
      const bool printable = std::all_of(alpn[i].begin(), alpn[i].end(), absl::ascii_isgraph);
      if (!alpn[i].empty() && alpn[i].size() <= kMaxAlpnBytes && printable) continue;
      report_.error(item_path(path, i),
                    absl::StrCat("expected an ALPN protocol such as h2 or http/1.1, got ", in_quotes(alpn[i])));
    }
  }

  void check_forward(std::string_view name, const std::string& path) {
    // If some upstream's name is invalid, it may be the one intended.
    if (!names_known_ || std::binary_search(upstream_names_.begin(), upstream_names_.end(), name)) return;
    const std::string guess = report_.is_full() ? "" : did_you_mean(name, upstream_names_);
    report_.error(path, absl::StrCat("there is no upstream ", in_quotes(name),
                                     guess.empty() ? "; add it under `upstreams`" : guess));
  }

  void check_http_forward(std::string_view name, const std::string& path) {
    check_forward(name, path);
    const Upstream* const upstream = find_upstream(name);
    if (upstream == nullptr) return;
    if (upstream->protocol == Protocol::kTcp) {
      report_.error(path, absl::StrCat("upstream ", in_quotes(name),
                                       " has `protocol: tcp`: give it http1 or http2 to send it requests"));
    }
    checked_.http_forwards.emplace(upstream->name, path);
  }

  // The first of this name, or null.
  const Upstream* find_upstream(std::string_view name) const {
    const auto found = by_name_.find(name);
    return found == by_name_.end() ? nullptr : found->second;
  }

  // Calls of gRPC go to it.
  void check_grpc_forward(std::string_view name, const std::string& path) {
    check_http_forward(name, path);
    const Upstream* const upstream = find_upstream(name);
    if (upstream == nullptr || upstream->protocol == Protocol::kHttp2) return;
    report_.error(path, absl::StrCat("upstream ", in_quotes(name), " gets calls of gRPC: give it `protocol: http2`"));
  }

  void check_upstream_protocol(const Upstream& upstream, std::string_view http_forward, const std::string& path) {
    if (!http_forward.empty() && upstream.send_proxy_protocol != ProxyHeaderOut::kOff) {
      report_.error(
          path + ".send_proxy_protocol",
          absl::StrCat("requests of different clients share a connection, and ", report_.with_place(http_forward),
                       " sends requests; X-Forwarded-For carries their addresses"));
    }
    const bool http2 = upstream.protocol == Protocol::kHttp2;
    const bool http1 =
        upstream.protocol == Protocol::kHttp1 || (upstream.protocol == Protocol::kAuto && !http_forward.empty());
    if (!upstream.tls || upstream.tls->alpn.empty() || (!http1 && !http2)) return;
    const std::string_view only = http2 ? kAlpnHttp2 : kAlpnHttp1;
    if (upstream.tls->alpn.size() == 1 && upstream.tls->alpn[0] == only) return;
    report_.error(path + ".tls.alpn", absl::StrCat("expected ", only, " only, since the endpoints are to speak ",
                                                   http2 ? "HTTP/2" : "HTTP/1.1 (for HTTP/2: `protocol: http2`)"));
  }

  void check_upstream(const Upstream& upstream, const std::string& path) {
    check_health(upstream, path, report_);
    check_concurrency(upstream, path, report_);
    if (upstream.tls) check_upstream_tls(*upstream.tls, path + ".tls");
    if (upstream.alts) {
      check_alts(*upstream.alts, upstream.tls.has_value(), path + ".alts");
      if (!upstream.alts->certificates.empty() && upstream.alts->target_identities.empty()) {
        report_.error(path + ".alts",
                      "expected `target_identities`, of which the endpoints' certificates must name one");
      }
      if (upstream.alts->handshaker.is_set() && upstream.alts->target_identities.empty()) {
        report_.warn(path + ".alts",
                     "without `target_identities` any peer that the handshaker service authenticates is accepted as "
                     "the endpoint");
      }
    }
    check_balancing(upstream, path, report_);
    if (upstream.endpoints.empty()) report_.error(path + ".endpoints", "expected at least one endpoint");
    std::map<std::string, size_t> seen;
    for (size_t i = 0; i < upstream.endpoints.size(); ++i) {
      const Endpoint& endpoint = upstream.endpoints[i];
      const std::string endpoint_path = item_path(path + ".endpoints", i);
      if (!check_endpoint(endpoint, endpoint_path)) continue;
      const auto [first, inserted] = seen.emplace(endpoint.text(), i);
      if (inserted) continue;
      report_.error(endpoint_path, absl::StrCat(endpoint.text(), " is already ",
                                                report_.with_place(item_path(path + ".endpoints", first->second)),
                                                "; for a larger share give it a `weight`"));
    }
    check_resolve(upstream.resolve, path + ".resolve");
  }

  // Returns false if the endpoint has no address.
  bool check_endpoint(const Endpoint& endpoint, const std::string& path) {
    const EndpointAddress& address = endpoint.address;
    if (!endpoint.srv.empty()) {
      if (address.is_set()) report_.error(path + ".srv", "expected either `srv` or `address`");
      if (endpoint.weight != 1) report_.error(path + ".weight", "the weights are those of the SRV records; remove it");
      return true;
    }
    if (!address.is_set()) {
      report_.error(path, "expected an address");
      return false;
    }
    check_port(address, path);
    return true;
  }

  void check_port(const EndpointAddress& address, const std::string& path) {
    const bool has_port = address.is_name() || address.address().kind() != Address::Kind::kUnix;
    if (has_port && address.port() == 0) {
      report_.error(path, absl::StrCat("expected a port from 1 to 65535, got ", in_quotes(address.text())));
    }
  }

  void check_resolve(const Resolve& resolve, const std::string& path) {
    for (size_t i = 0; i < resolve.servers.size(); ++i) {
      const Address& server = resolve.servers[i];
      if (server.is_set() && (server.kind() == Address::Kind::kUnix || server.port() == 0)) {
        report_.error(
            item_path(path + ".servers", i),
            absl::StrCat("expected the address of a name server such as 127.0.0.1:53, got ", in_quotes(server.text())));
      }
    }
    if (resolve.max_ttl < resolve.min_ttl) {
      report_.error(path + ".max_ttl",
                    absl::StrCat("must be at least `min_ttl`, which is ", print_duration(resolve.min_ttl), ", got ",
                                 print_duration(resolve.max_ttl)));
    }
  }

  const Config& config_;
  Report& report_;
  Checked& checked_;
  std::vector<std::string_view> upstream_names_;  // sorted
  bool names_known_ = true;
  absl::flat_hash_map<std::string_view, const Upstream*> by_name_;  // The first of each name.
};

}  // namespace

void validate(const Config& config, Report& report) {
  Checked nothing;
  validate(config, report, &nothing);
}

void validate(const Config& config, Report& report, Checked* checked) { Checker(config, report, *checked).check(); }

}  // namespace sluice::config
