#include "proxy/convert/nginx/server_tls.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "proxy/convert/nginx/values.h"

namespace sluice::convert::nginx {
namespace {

using config::Node;

// What a server demands of the certificates of its clients.
struct ClientCheck {
  std::string mode;  // `off`, `on`, `optional`, `optional_no_ca`
  std::string authorities;
  std::string depth;

  bool operator==(const ClientCheck&) const = default;
};

ClientCheck check_of(const Scope& scope, State& state) {
  ClientCheck check{.mode = std::string(scope.value("ssl_verify_client", "off")), .authorities = {}, .depth = {}};
  if (check.mode == "off") return check;
  if (const Directive* const file = scope.find("ssl_client_certificate")) check.authorities = state.file(file->arg(0));
  check.depth = scope.value("ssl_verify_depth", "1");
  return check;
}

void add_certificates(const Scope& scope, State& state, Node& list) {
  const std::vector<const Directive*> chains = scope.all("ssl_certificate"), keys = scope.all("ssl_certificate_key");
  for (size_t i = 0; i < chains.size() && i < keys.size(); ++i) {
    const std::string_view chain = chains[i]->arg(0), key = keys[i]->arg(0);
    if (has_variables(chain) || has_variables(key) || chain.starts_with("data:") ||
        key.find(':') != std::string_view::npos) {
      state.refuse(*chains[i], "certificates and keys are files with fixed names");
      continue;
    }
    Node certificate = map_node();
    put(certificate, "chain", state.file(chain));
    put(certificate, "key", state.file(key));
    if (const Directive* const staple = scope.find("ssl_stapling_file"))
      put(certificate, "ocsp", state.file(staple->arg(0)));
    const auto same = [&](const Node& known) { return same_value(known, certificate); };
    if (std::none_of(list.items.begin(), list.items.end(), same)) list.items.push_back(std::move(certificate));
  }
}

void put_versions(const Scope& scope, State& state, Node& tls) {
  const Directive* const protocols = scope.find("ssl_protocols");
  if (protocols == nullptr) return;
  const auto has = [&](std::string_view version) {
    return std::find(protocols->args.begin(), protocols->args.end(), version) != protocols->args.end();
  };
  if (has("TLSv1.3") && !has("TLSv1.2")) put(tls, "min_version", "1.3");
  if (has("TLSv1") || has("TLSv1.1")) state.ignore(*protocols, "clients need TLS 1.2 or 1.3");
  if (!has("TLSv1.3")) state.ignore(*protocols, "TLS 1.3 is spoken, too");
}

TlsResult put_client_check(const ServerGroup& group, const Scope& context, State& state, Node& tls) {
  std::vector<ClientCheck> checks;
  const Directive* asking = nullptr;
  for (const Directive* const server : group.servers) {
    const Scope scope{server, &context};
    // A server without certificates does not get connections of its own.
    ClientCheck check = check_of(scope, state);
    if (check.mode != "off" && asking == nullptr) asking = scope.find("ssl_verify_client");
    checks.push_back(std::move(check));
  }
  if (asking == nullptr) return TlsResult::kDone;
  const ClientCheck& first = checks.front();
  const bool same = std::all_of(checks.begin(), checks.end(), [&](const ClientCheck& c) { return c == first; });
  const bool usable = first.mode == "on" || first.mode == "optional";
  if (!same || !usable || first.authorities.empty()) {
    state.refuse(
        *asking,
        !same ? "all servers of an address check the certificates of clients in the same way: it refuses all requests"
        : usable ? "expected ssl_client_certificate: its address refuses all requests"
                 : "certificates are not accepted without an authority: its address refuses all requests");
    return TlsResult::kClosed;
  }
  put(tls, "client_ca", first.authorities);
  put(tls, "client_certificate", first.mode == "on" ? "require" : "request");
  put(tls, "client_depth", first.depth);
  return TlsResult::kDone;
}

}  // namespace

TlsResult put_server_tls(const ServerGroup& group, const Scope& context, State& state, Node& listener) {
  Node tls = map_node();
  Node certificates = list_node();
  for (const Directive* const server : group.servers) add_certificates({server, &context}, state, certificates);
  if (certificates.items.empty()) {
    state.refuse(*group.listen, "there is no certificate that can be used: the address is left out");
    return TlsResult::kNone;
  }
  put(tls, "certificates", std::move(certificates));
  const Scope scope{group.servers.front(), &context};
  if (context.block->name == "http" && !group.has_http2) put(tls, "alpn", list_node({"http/1.1"}));
  put_versions(scope, state, tls);
  const TlsResult result = put_client_check(group, context, state, tls);
  if (scope.value("ssl_session_tickets") == "off") put(tls, "tickets", "false");
  put_time(tls, "handshake_timeout", scope.find("ssl_handshake_timeout"), state);
  put(listener, "tls", std::move(tls));
  return result;
}

}  // namespace sluice::convert::nginx
