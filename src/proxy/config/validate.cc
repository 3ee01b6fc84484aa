#include "proxy/config/validate.h"

#include <algorithm>
#include <bit>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "proxy/config/words.h"

namespace sluice::config {
namespace {

constexpr size_t kMaxNameBytes = 64;   // names become labels of counters
constexpr size_t kMaxAlpnBytes = 255;  // RFC 7301: one length byte

std::string item(std::string_view list, size_t index) { return absl::StrCat(list, "[", index, "]"); }

// " (12:5)" behind a path that stands somewhere.
std::string at(const Report& report, std::string_view path) {
  const Mark mark = report.place_of(path);
  return mark.line == 0 ? std::string(path) : absl::StrCat(path, " (", mark.line, ":", mark.column, ")");
}

bool is_name(std::string_view name) {
  const auto fits = [](unsigned char c) { return absl::ascii_isalnum(c) || c == '_' || c == '-' || c == '.'; };
  return !name.empty() && name.size() <= kMaxNameBytes && std::all_of(name.begin(), name.end(), fits);
}

template <class Named>
void check_names(const std::vector<Named>& list, std::string_view list_path, Report& report) {
  std::map<std::string_view, size_t> seen;
  for (size_t i = 0; i < list.size(); ++i) {
    const std::string path = absl::StrCat(item(list_path, i), ".name");
    const std::string& name = list[i].name;
    if (!is_name(name)) {
      report.error(path, absl::StrCat("expected a name of 1 to ", kMaxNameBytes,
                                      " letters, digits, `_`, `-` and `.`, got ", in_quotes(name)));
      continue;
    }
    const auto [first, inserted] = seen.emplace(name, i);
    if (inserted) continue;
    report.error(path, absl::StrCat(in_quotes(name), " is already the name of ",
                                    at(report, item(list_path, first->second)), "; names must be unique"));
  }
}

class Checker {
 public:
  Checker(const Config& config, Report& report) : config_(config), report_(report) {
    for (const Upstream& upstream : config.upstreams) {
      upstream_names_.push_back(upstream.name);
      names_known_ = names_known_ && is_name(upstream.name);
    }
    std::sort(upstream_names_.begin(), upstream_names_.end());
  }

  void check() {
    if (!std::has_single_bit(config_.memory.ring_entries)) {
      report_.error("memory.ring_entries", absl::StrCat("must be a power of two, got ", config_.memory.ring_entries,
                                                        "; the next is ", std::bit_ceil(config_.memory.ring_entries)));
    }
    if (config_.listeners.empty()) report_.error("listeners", "expected at least one listener");
    check_names(config_.listeners, "listeners", report_);
    check_names(config_.upstreams, "upstreams", report_);
    for (size_t i = 0; i < config_.listeners.size(); ++i) check_listener(config_.listeners[i], item("listeners", i));
    check_listen_addresses();
    for (size_t i = 0; i < config_.upstreams.size(); ++i) check_upstream(config_.upstreams[i], item("upstreams", i));
  }

 private:
  void check_listener(const Listener& listener, const std::string& path) {
    const ProxyProtocol& proxy = listener.proxy_protocol;
    const bool is_unix = listener.address.is_set() && listener.address.kind() == Address::Kind::kUnix;
    if (proxy.accept == ProxyHeaderIn::kOptional && proxy.trusted.empty() && !is_unix) {
      report_.error(path + ".proxy_protocol.accept",
                    "`optional` lets every client choose the address it seems to come from: list the proxies in front "
                    "under `trusted`, or use `required`");
    }
    if (listener.tls) check_listener_tls(*listener.tls, path + ".tls");
    check_tcp(listener.tcp, path + ".tcp");
  }

  void check_listener_tls(const ListenerTls& tls, const std::string& path) {
    check_alpn(tls.alpn, path + ".alpn");
    if (tls.client_certificate != ClientCertificate::kOff && tls.client_ca.empty()) {
      report_.error(path + ".client_certificate", "needs `client_ca`, the authorities that certificates may come from");
    }
    if (tls.client_certificate == ClientCertificate::kOff && !tls.client_ca.empty()) {
      report_.error(path + ".client_ca", "has no effect without `client_certificate: request` or `require`");
    }
  }

  void check_upstream_tls(const UpstreamTls& tls, const std::string& path) {
    check_alpn(tls.alpn, path + ".alpn");
    if (tls.verify && tls.server_name.empty()) {
      report_.error(path, "expected `server_name`, which the endpoints' certificates must be for (or `verify: false`)");
    }
    if (!tls.verify && !tls.ca.empty()) report_.error(path + ".ca", "has no effect with `verify: false`");
  }

  void check_tcp(const Tcp& tcp, const std::string& path) {
    if (tcp.buffer_low >= tcp.buffer_high) {
      report_.error(path + ".buffer_low", absl::StrCat("must be below buffer_high (", print_size(tcp.buffer_high),
                                                       "), got ", print_size(tcp.buffer_low)));
    }
    if (tcp.forward.empty() == tcp.routes.empty()) {
      report_.error(path, tcp.forward.empty() ? "expected `forward: NAME` or `routes: [ ... ]`"
                                              : "`forward` and `routes` exclude each other: make it the last of the "
                                                "routes, without `match`");
    }
    if (!tcp.forward.empty()) check_forward(tcp.forward, path + ".forward");
    for (size_t i = 0; i < tcp.routes.size(); ++i) {
      check_route(tcp.routes[i], i + 1 == tcp.routes.size(), item(path + ".routes", i));
    }
  }

  void check_route(const TcpRoute& route, bool last, const std::string& path) {
    if (!route.match && !last) {
      report_.error(path, "a route without `match` takes every connection: it must be the last one");
    }
    if (route.match && route.match->sni.empty() && route.match->alpn.empty()) {
      report_.error(path + ".match", "expected `sni` or `alpn`; for a route that takes everything leave `match` out");
    }
    if (route.match) check_alpn(route.match->alpn, path + ".match.alpn");
    if (!route.forward.empty()) return check_forward(route.forward, path + ".forward");
    report_.error(path + ".forward", "expected the name of an upstream");
  }

  void check_alpn(const std::vector<std::string>& alpn, const std::string& path) {
    for (size_t i = 0; i < alpn.size(); ++i) {
      const bool printable = std::all_of(alpn[i].begin(), alpn[i].end(), absl::ascii_isgraph);
      if (!alpn[i].empty() && alpn[i].size() <= kMaxAlpnBytes && printable) continue;
      report_.error(item(path, i),
                    absl::StrCat("expected an ALPN protocol such as h2 or http/1.1, got ", in_quotes(alpn[i])));
    }
  }

  void check_forward(std::string_view name, const std::string& path) {
    // A name that could not be read may be the one that is meant.
    if (!names_known_ || std::binary_search(upstream_names_.begin(), upstream_names_.end(), name)) return;
    const std::string guess = report_.is_full() ? "" : did_you_mean(name, upstream_names_);
    report_.error(path, absl::StrCat("there is no upstream ", in_quotes(name),
                                     guess.empty() ? "; add it under `upstreams`" : guess));
  }

  void check_listen_addresses() {
    std::map<std::string, size_t> seen;
    for (size_t i = 0; i < config_.listeners.size(); ++i) {
      const Address& address = config_.listeners[i].address;
      const std::string path = item("listeners", i) + ".address";
      if (!address.is_set()) {
        report_.error(path, "expected an address");
        continue;
      }
      const bool kernel_chooses = address.kind() != Address::Kind::kUnix && address.port() == 0;
      if (kernel_chooses) continue;
      const auto [first, inserted] = seen.emplace(address.text(), i);
      if (inserted) continue;
      report_.error(path, absl::StrCat(address.text(), " is already the address of ",
                                       at(report_, item("listeners", first->second))));
    }
  }

  void check_upstream(const Upstream& upstream, const std::string& path) {
    if (upstream.tls) check_upstream_tls(*upstream.tls, path + ".tls");
    if (upstream.endpoints.empty()) report_.error(path + ".endpoints", "expected at least one endpoint");
    std::map<std::string, size_t> seen;
    for (size_t i = 0; i < upstream.endpoints.size(); ++i) {
      const Address& address = upstream.endpoints[i].address;
      const std::string endpoint_path = item(path + ".endpoints", i);
      if (!address.is_set()) {
        report_.error(endpoint_path, "expected an address");
        continue;
      }
      if (address.kind() != Address::Kind::kUnix && address.port() == 0) {
        report_.error(endpoint_path, absl::StrCat("expected a port from 1 to 65535, got ", in_quotes(address.text())));
      }
      const auto [first, inserted] = seen.emplace(address.text(), i);
      if (inserted) continue;
      report_.error(endpoint_path,
                    absl::StrCat(address.text(), " is already ", at(report_, item(path + ".endpoints", first->second)),
                                 "; for a larger share give it a `weight`"));
    }
  }

  const Config& config_;
  Report& report_;
  std::vector<std::string_view> upstream_names_;  // sorted
  bool names_known_ = true;
};

}  // namespace

void validate(const Config& config, Report& report) { Checker(config, report).check(); }

std::vector<TcpRoute> routes_of(const Tcp& tcp) {
  if (tcp.forward.empty()) return tcp.routes;
  return {TcpRoute{.match = std::nullopt, .forward = tcp.forward}};
}

}  // namespace sluice::config
