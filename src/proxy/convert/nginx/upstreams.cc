#include "proxy/convert/nginx/upstreams.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"
#include "proxy/common/suggestions.h"
#include "proxy/config/model/resolve.h"
#include "proxy/convert/nginx/values.h"

namespace sluice::convert::nginx {
namespace {

using config::Node;

// The values that nginx has for each server, and Sluice for an upstream.
struct OneForAll {
  std::vector<std::string> max_fails, fail_timeout, max_conns;
};

std::string_view parameter(const Directive& server, std::string_view name) {
  for (const std::string& arg : server.args) {
    std::string_view rest = arg;
    if (absl::ConsumePrefix(&rest, name) && absl::ConsumePrefix(&rest, "=")) return rest;
  }
  return "";
}

bool has_word(const Directive& directive, std::string_view word) {
  return std::find(directive.args.begin(), directive.args.end(), word) != directive.args.end();
}

void check_parameters(const Directive& server, State& state) {
  for (size_t i = 1; i < server.args.size(); ++i) {
    const std::string_view name = std::string_view(server.args[i]).substr(0, server.args[i].find('='));
    constexpr std::string_view kKnown[] = {"weight", "max_conns", "max_fails", "fail_timeout",
                                           "backup", "down",      "resolve",   "service"};
    if (std::find(std::begin(kKnown), std::end(kKnown), name) != std::end(kKnown)) continue;
    state.refuse(server, absl::StrCat("there is no counterpart of ", config::in_quotes(name)));
  }
}

// Returns nothing for a server that is down, or that a finding is about.
std::optional<Node> endpoint_of(const Directive& server, std::string_view port, State& state) {
  check_parameters(server, state);
  if (has_word(server, "down")) {
    state.ignore(server, "it is down: it is left out");
    return std::nullopt;
  }
  Node endpoint = map_node();
  if (const std::string_view service = parameter(server, "service"); !service.empty()) {
    const std::string name = service.starts_with('_') ? absl::StrCat(service, ".", server.arg(0))
                                                      : absl::StrCat("_", service, "._tcp.", server.arg(0));
    put(endpoint, "srv", name);
    return endpoint;
  }
  const std::optional<std::string> address = address_of(server.arg(0), port, /*listens=*/false);
  if (!address) {
    state.refuse(server, absl::StrCat(config::in_quotes(server.arg(0)), " is no address"));
    return std::nullopt;
  }
  put(endpoint, "address", *address);
  uint32_t weight = 1;
  if (const std::string_view text = parameter(server, "weight"); !text.empty()) {
    if (!absl::SimpleAtoi(text, &weight) || weight < 1 || weight > 1000) {
      state.ignore(server, "its weight is replaced by the nearest from 1 to 1000");
      weight = std::clamp<uint32_t>(weight, 1, 1000);
    }
    if (weight != 1) put(endpoint, "weight", absl::StrCat(weight));
  }
  if (has_word(server, "backup")) put(endpoint, "priority", "1");
  if (endpoint.keys.size() == 1) return scalar_node(*address);
  return endpoint;
}

// All the same value, or the first, which a finding says.
std::string_view one_value(const std::vector<std::string>& values, const Directive& block, std::string_view what,
                           State& state) {
  if (values.empty()) return "";
  const bool same = std::all_of(values.begin(), values.end(), [&](const std::string& v) { return v == values[0]; });
  if (!same) state.refuse(block, absl::StrCat(what, " is one value for all servers: that of the first counts"));
  return values[0];
}

void put_one_for_all(const Directive& block, const OneForAll& all, Node& out, State& state) {
  const std::string_view fails = one_value(all.max_fails, block, "max_fails", state);
  if (!fails.empty() && fails != "1") put(out, "max_fails", fails);
  const std::string_view timeout = one_value(all.fail_timeout, block, "fail_timeout", state);
  if (const auto time = parse_time(timeout); time && time->count() != 10000) {
    put(out, "fail_timeout", duration_text(*time));
  }
  const std::string_view most = one_value(all.max_conns, block, "max_conns", state);
  if (!most.empty() && most != "0") put(out, "max_connections_per_endpoint", most);
}

// `hash $request_uri consistent;`
void put_hash(const Directive& hash, Node& out, State& state) {
  put(out, "balance", has_word(hash, "consistent") ? "ring_hash" : "maglev");
  Node& key = put(out, "hash", map_node());
  std::string_view text = hash.arg(0);
  if (text == "$request_uri" || text == "$uri") {
    put(key, "path", "true");
    if (text == "$request_uri") state.ignore(hash, "the query does not count");
  } else if (absl::ConsumePrefix(&text, "$http_")) {
    put(key, "header", absl::StrReplaceAll(text, {{"_", "-"}}));
  } else if (absl::ConsumePrefix(&text, "$cookie_")) {
    put(key, "cookie", text);
  } else if (absl::ConsumePrefix(&text, "$arg_")) {
    put(key, "query", text);
  } else {
    if (text != "$remote_addr" && text != "$binary_remote_addr") {
      state.refuse(hash,
                   absl::StrCat("there is no such key: ", config::in_quotes(text), "; the client's address counts"));
    }
    put(key, "source", "true");
  }
}

void put_balance(const Directive& block, Spoken spoken, Node& out, State& state) {
  const std::string_view least = spoken == Spoken::kBytes ? "least_connections" : "least_request";
  for (const Directive& each : block.block) {
    if (each.name == "least_conn") {
      put(out, "balance", least);
    } else if (each.name == "ip_hash") {
      put(out, "balance", "maglev");
      put(map_at(out, "hash"), "source", "true");
    } else if (each.name == "random") {
      put(out, "balance", each.arg(0) == "two" ? least : "random");
    } else if (each.name == "hash") {
      put_hash(each, out, state);
    }
  }
}

void put_pool(const Directive& block, Node& out, State& state) {
  Node pool = map_node();
  const Scope scope{&block};
  uint32_t idle = 0;
  const Directive* const keepalive = scope.find("keepalive");
  if (keepalive != nullptr && absl::SimpleAtoi(keepalive->arg(0), &idle)) put(pool, "max_idle", absl::StrCat(idle));
  put_time(pool, "idle_timeout", scope.find("keepalive_timeout"), state);
  if (const Directive* const requests = scope.find("keepalive_requests")) put(pool, "max_requests", requests->arg(0));
  if (!pool.keys.empty()) put(out, "pool", std::move(pool));
}

void put_endpoints(const Directive& block, std::string_view port, Node& out, State& state) {
  Node endpoints = list_node();
  OneForAll all;
  bool backup = false;
  for (const Directive* const server : block.all("server")) {
    std::optional<Node> endpoint = endpoint_of(*server, port, state);
    if (!endpoint) continue;
    endpoints.items.push_back(*std::move(endpoint));
    const auto add = [&](std::vector<std::string>& to, std::string_view name, std::string_view other) {
      const std::string_view value = parameter(*server, name);
      to.emplace_back(value.empty() ? other : value);
    };
    add(all.max_fails, "max_fails", "1");
    add(all.fail_timeout, "fail_timeout", "10s");
    add(all.max_conns, "max_conns", "0");
    backup = backup || has_word(*server, "backup");
  }
  put(out, "endpoints", std::move(endpoints));
  if (backup) put(out, "failover_below", "1");  // Only when no other server is usable.
  put_one_for_all(block, all, out, state);
}

// Names are resolved by the name servers of `resolver`.
void put_resolver(const Scope& scope, Node& out, State& state) {
  const Node* const endpoints = out.find("endpoints");
  const auto is_named = [](const Node& endpoint) {
    if (endpoint.kind == Node::Kind::kMap && endpoint.find("srv") != nullptr) return true;
    const std::string& text = endpoint.kind == Node::Kind::kMap ? endpoint.find("address")->text : endpoint.text;
    const auto parsed = config::EndpointAddress::parse(text);
    return parsed.ok() && parsed->is_name();
  };
  if (std::none_of(endpoints->items.begin(), endpoints->items.end(), is_named)) return;
  const Directive* const resolver = scope.find("resolver");
  if (resolver == nullptr) return;
  Node resolve = map_node();
  std::vector<std::string> servers;
  for (const std::string& arg : resolver->args) {
    std::string_view rest = arg;
    if (absl::ConsumePrefix(&rest, "valid=")) {
      if (const auto time = parse_time(rest)) put(resolve, "max_ttl", duration_text(*time));
    } else if (arg == "ipv6=off" || arg == "ipv4=off") {
      put(resolve, "family", arg == "ipv6=off" ? "ip4" : "ip6");
    } else if (absl::StrContains(arg, '=')) {
      continue;
    } else if (const auto address = address_of(arg, "53", /*listens=*/false);
               address && config::Address::parse(*address).ok()) {
      servers.push_back(*address);
    } else {
      state.refuse(*resolver, absl::StrCat("expected the address of a name server, got ", config::in_quotes(arg)));
    }
  }
  if (!servers.empty()) put(resolve, "servers", list_node(servers));
  if (!resolve.keys.empty()) put(out, "resolve", std::move(resolve));
}

void put_tls(const PassTarget& target, Spoken spoken, const Scope& scope, Node& out, State& state) {
  if (!target.has_tls) return;
  Node& tls = put(out, "tls", map_node());
  const bool verify = scope.is_on(passing_name(spoken, "ssl_verify"));
  if (!verify) put(tls, "verify", "false");
  if (const Directive* const ca = scope.find(passing_name(spoken, "ssl_trusted_certificate"));
      ca != nullptr && verify) {
    put(tls, "ca", state.file(ca->arg(0)));
  }
  std::string name(scope.value(passing_name(spoken, "ssl_name")));
  if (name.empty() || name == "$proxy_host" || name == "$host") {
    if (name == "$host") state.refuse(*scope.find(passing_name(spoken, "ssl_name")), "the name that is sent is fixed");
    name = target.server.substr(0, target.server.rfind(':'));
  }
  const bool sends_name = scope.is_on(passing_name(spoken, "ssl_server_name"));
  if ((verify || sends_name) && !has_variables(name)) put(tls, "server_name", name);
  const Directive* const chain = scope.find(passing_name(spoken, "ssl_certificate"));
  const Directive* const key = scope.find(passing_name(spoken, "ssl_certificate_key"));
  if (chain != nullptr && key != nullptr) {
    Node& certificate = put(tls, "certificate", map_node());
    put(certificate, "chain", state.file(chain->arg(0)));
    put(certificate, "key", state.file(key->arg(0)));
  }
  if (const Directive* const protocols = scope.find(passing_name(spoken, "ssl_protocols"))) {
    if (!has_word(*protocols, "TLSv1.2") && has_word(*protocols, "TLSv1.3")) put(tls, "min_version", "1.3");
  }
}

}  // namespace

std::optional<PassTarget> parse_pass(std::string_view text, Spoken spoken) {
  PassTarget target;
  if (spoken != Spoken::kBytes) {
    const std::string_view plain = spoken == Spoken::kGrpc ? "grpc://" : "http://";
    const std::string_view secure = spoken == Spoken::kGrpc ? "grpcs://" : "https://";
    target.has_tls = absl::ConsumePrefix(&text, secure);
    const bool has_scheme = target.has_tls || absl::ConsumePrefix(&text, plain);
    if (!has_scheme && spoken == Spoken::kHttp) return std::nullopt;
  }
  size_t end = text.find('/');
  if (text.starts_with("unix:")) {
    // `unix:/run/app.sock:/uri`
    const size_t colon = text.find(':', 5);
    target.uri = colon == std::string_view::npos ? "" : text.substr(colon + 1);
    end = colon;
  } else if (end != std::string_view::npos && spoken != Spoken::kBytes) {
    target.uri = text.substr(end);
  }
  target.server = text.substr(0, end);
  if (target.uri == "$request_uri") target.uri.clear();
  if (const size_t variable = target.server.find('$'); variable != std::string::npos) {
    // `http://app$request_uri` is the same as `http://app`.
    if (target.server.substr(variable) != "$request_uri") return std::nullopt;
    target.server.resize(variable);
  }
  if (target.server.empty() || has_variables(target.uri)) return std::nullopt;
  return target;
}

std::optional<std::string> upstream_for(const PassTarget& target, Spoken spoken, const Scope& scope,
                                        const Directive& pass, State& state) {
  const auto& blocks = spoken == Spoken::kBytes ? state.stream_upstreams : state.http_upstreams;
  const auto found = blocks.find(target.server);
  Node out = map_node();
  if (spoken == Spoken::kGrpc) put(out, "protocol", "http2");
  if (found != blocks.end()) {
    put_endpoints(*found->second, "80", out, state);
    put_balance(*found->second, spoken, out, state);
    put_pool(*found->second, out, state);
  } else {
    const std::optional<std::string> address =
        address_of(target.server, target.has_tls ? "443" : "80", /*listens=*/false);
    if (!address) {
      state.refuse(pass,
                   absl::StrCat(config::in_quotes(target.server), " is no address, and no upstream has this name"));
      return std::nullopt;
    }
    put(out, "endpoints", list_node({*address}));
  }
  if (out.find("endpoints")->items.empty()) {
    state.refuse(pass, absl::StrCat(config::in_quotes(target.server), " has no server that can be used"));
    return std::nullopt;
  }
  put_resolver(scope, out, state);
  put_time(out, "connect_timeout", scope.find(passing_name(spoken, "connect_timeout")), state);
  put_tls(target, spoken, scope, out, state);
  if (spoken == Spoken::kBytes && scope.is_on("proxy_protocol")) put(out, "send_proxy_protocol", "v1");
  // An upstream of nginx may become several, where locations speak to it in different ways.
  return state.upstreams.name_for(std::move(out), target.server);
}

}  // namespace sluice::convert::nginx
