#include "proxy/convert/haproxy/backends.h"

#include <algorithm>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "proxy/common/suggestions.h"
#include "proxy/config/model/address.h"
#include "proxy/convert/haproxy/servers.h"

namespace sluice::convert::haproxy {
namespace {

using config::Node;

void put_balance(const Proxy& backend, bool is_http, Node& out, State& state) {
  const Line* const line = backend.last("balance");
  const Line* const type = backend.last("hash-type");
  const std::string_view hashed = type != nullptr && type->word(1) == "consistent" ? "ring_hash" : "maglev";
  const std::string_view least = is_http ? "least_request" : "least_connections";
  if (line == nullptr) return;
  std::string_view policy = line->word(1);
  Node key = map_node();
  if (policy == "roundrobin" || policy == "static-rr") return;
  if (policy == "leastconn") return static_cast<void>(put(out, "balance", least));
  if (policy == "random" || absl::StartsWith(policy, "random(")) {
    put(out, "balance", policy == "random(1)" ? "random" : least);  // HAProxy draws two.
    return;
  }
  if (policy == "source") {
    put(key, "source", "true");
  } else if (policy == "uri") {
    put(key, "path", "true");
  } else if (policy == "url_param") {
    put(key, "query", line->word(2));
  } else if (absl::ConsumePrefix(&policy, "hdr(") && absl::ConsumeSuffix(&policy, ")")) {
    put(key, "header", policy);
  } else {
    return state.refuse(
        *line, absl::StrCat("there is no counterpart of ", config::in_quotes(policy), ": servers are used in turn"));
  }
  put(out, "balance", hashed);
  put(out, "hash", std::move(key));
}

void put_sticky(const Proxy& backend, Node& out, State& state) {
  const Line* const cookie = backend.last("cookie");
  if (cookie == nullptr) return;
  if (!cookie->has("insert")) return state.refuse(*cookie, "a cookie of a server's own is not changed; see `sticky`");
  put(put(out, "sticky", map_node()), "cookie", cookie->word(1));
  state.ignore(*cookie, "the cookie has another value, and other attributes: see docs/guides/balancing.md");
}

// `http-check expect status 200-299`
void put_expected(const Line& expect, Node& http, State& state) {
  const std::string_view kind = expect.word(2), value = expect.word(3);
  if (kind == "string") return static_cast<void>(put(http, "body", value));
  if (kind != "status") return state.refuse(expect, "expected `status`, or `string`");
  std::vector<std::string> statuses;
  for (const std::string_view part : absl::StrSplit(value, ',')) {
    const std::vector<std::string_view> ends = absl::StrSplit(part, '-');
    uint32_t first = 0, last = 0;
    if (!absl::SimpleAtoi(ends.front(), &first) || !absl::SimpleAtoi(ends.back(), &last) || first < 100 || last > 599) {
      return state.refuse(expect, "expected statuses from 100 to 599");
    }
    if (first == 200 && last == 399) continue;  // As it is anyway.
    for (uint32_t status = first; status <= last && statuses.size() < 100; ++status)
      statuses.push_back(absl::StrCat(status));
  }
  put_words(http, "status", statuses);
}

void put_http_check(const Proxy& backend, Node& check, State& state) {
  const Line* const option = backend.last("option", "httpchk");
  if (option == nullptr) {
    for (const std::string_view other :
         {"tcp-check", "ssl-hello-chk", "mysql-check", "pgsql-check", "redis-check", "smtpchk", "ldap-check"}) {
      if (const Line* const line = backend.last("option", other)) state.ignore(*line, "a successful connect is enough");
    }
    return;
  }
  Node http = map_node();
  std::string_view method = "OPTIONS", path = "/";
  if (option->words.size() == 3) path = option->word(2);
  if (option->words.size() > 3) {
    method = option->word(2);
    path = option->word(3);
  }
  std::string_view host;
  for (const Line* const send : backend.all("http-check", "send")) {
    if (!send->after("meth").empty()) method = send->after("meth");
    if (!send->after("uri").empty()) path = send->after("uri");
    for (size_t i = 0; i + 2 < send->words.size(); ++i) {
      if (send->words[i] == "hdr" && absl::EqualsIgnoreCase(send->words[i + 1], "host")) host = send->words[i + 2];
    }
  }
  if (method != "GET") state.ignore(*option, "checks are GET");
  put(http, "path", path);
  if (!host.empty()) put(http, "host", host);
  for (const Line* const expect : backend.all("http-check", "expect")) put_expected(*expect, http, state);
  put(check, "http", std::move(http));
}

void put_check(const Proxy& backend, const Servers& servers, Node& out, State& state) {
  if (!servers.is_checked) return;
  Node check = servers.check;
  if (check.find("interval") == nullptr) put(check, "interval", "2s");
  if (const Line* const timeout = backend.last("timeout", "check"))
    put_time(check, "timeout", *timeout, timeout->word(2), state);
  put_http_check(backend, check, state);
  put(out, "health_check", std::move(check));
}

void put_resolvers(const Servers& servers, Node& out, State& state) {
  Node resolve = map_node();
  if (!servers.max_addresses.empty()) put(resolve, "max_addresses", servers.max_addresses);
  if (const auto found = state.resolvers.find(servers.resolvers); found != state.resolvers.end()) {
    std::vector<std::string> names;
    for (const Line& line : found->second->lines) {
      if (line.keyword() == "nameserver") {
        std::string_view address = line.word(2);
        absl::ConsumePrefix(&address, "udp@");
        if (config::Address::parse(address).ok())
          names.emplace_back(address);
        else
          state.refuse(line, absl::StrCat("expected the address of a name server, got ", config::in_quotes(address)));
      } else if (line.keyword() == "resolve_retries") {
        put_count(resolve, "attempts", line, line.word(1), 1, 10, state);
      } else if (line.keyword() == "timeout" && line.word(1) == "retry") {
        put_time(resolve, "timeout", line, line.word(2), state);
      } else if (line.keyword() == "hold" && line.word(1) == "valid") {
        put_time(resolve, "max_ttl", line, line.word(2), state);
      } else {
        state.ignore(line, "see `resolve` in docs/guides/resolve.md");
      }
    }
    if (!names.empty()) put(resolve, "servers", list_node(names));
  }
  if (!resolve.keys.empty()) put(out, "resolve", std::move(resolve));
}

void put_times(const Proxy& backend, bool is_http, Node& out, State& state) {
  if (const Line* const connect = backend.last("timeout", "connect"))
    put_time(out, "connect_timeout", *connect, connect->word(2), state);
  if (const Line* const server = backend.last("timeout", "server"); server != nullptr && is_http) {
    put_time(out, "response_timeout", *server, server->word(2), state);
  }
  if (const Line* const retries = backend.last("retries")) {
    uint32_t count = 0;
    if (absl::SimpleAtoi(retries->word(1), &count))
      put(out, "connect_attempts", absl::StrCat(std::min(count, 99U) + 1));
  }
}

}  // namespace

Node route_keys(const Proxy& backend, State& state) {
  Node out = map_node();
  const Line* const retry_on = backend.last("retry-on");
  if (retry_on == nullptr) return out;
  std::vector<std::string> on, statuses;
  const auto add = [&](std::string_view word) {
    if (std::find(on.begin(), on.end(), word) == on.end()) on.emplace_back(word);
  };
  for (size_t i = 1; i < retry_on->words.size(); ++i) {
    const std::string& word = retry_on->words[i];
    uint32_t status = 0;
    if (word == "none") return out;
    if (word == "conn-failure") {
      add("connect_failure");
    } else if (word == "empty-response" || word == "junk-response" || word == "all-retryable-errors") {
      add("reset");
      add("refused");
    } else if (absl::SimpleAtoi(word, &status) && status >= 400 && status <= 599) {
      statuses.push_back(word);
    } else {
      state.ignore(*retry_on, absl::StrCat(config::in_quotes(word), " is no reason to try a request again"));
    }
  }
  if (on.empty()) add("connect_failure");
  Node retry = map_node();
  put_words(retry, "on", on);
  put_words(retry, "retriable_status_codes", statuses);
  put(out, "retry", std::move(retry));
  return out;
}

std::optional<std::string> upstream_of(const Proxy& backend, bool is_http, State& state) {
  const std::string key = absl::StrCat(backend.section->name, is_http ? "" : " by bytes");
  if (const auto known = state.upstreams.find(key); known != state.upstreams.end()) return known->second;
  std::optional<std::string>& name = state.upstreams[key];
  const Servers servers = read_servers(backend, state);
  if (!servers.usable || servers.endpoints.items.empty()) {
    if (servers.usable) {
      state.findings.add({.kind = backend.section->kind,
                          .name = backend.section->name,
                          .path = "",
                          .message = "it has no server that can be used: its requests get 503",
                          .severity = Severity::kRefused,
                          .mark = backend.section->mark});
    }
    return name;
  }
  Node out = map_node();
  if (is_http && servers.speaks_http2) put(out, "protocol", "http2");
  put(out, "endpoints", servers.endpoints);
  if (servers.has_backup) put(out, "failover_below", "1");  // Only when no other server is usable.
  put_balance(backend, is_http, out, state);
  if (is_http) put_sticky(backend, out, state);
  put_check(backend, servers, out, state);
  put_resolvers(servers, out, state);
  put_times(backend, is_http, out, state);
  if (!servers.max_connections.empty() && servers.max_connections != "0")
    put(out, "max_connections_per_endpoint", servers.max_connections);
  if (!servers.slow_start.empty()) {
    if (const auto time = parse_time(servers.slow_start)) put(out, "slow_start", duration_text(*time));
  }
  if (!servers.proxy_protocol.empty()) {
    if (is_http) {
      const bool lines = !backend.all("server").empty();
      state.refuse(*backend.all(lines ? "server" : "server-template").front(),
                   "requests are sent without a PROXY header");
    } else {
      put(out, "send_proxy_protocol", servers.proxy_protocol);
    }
  }
  if (servers.has_tls) put(out, "tls", servers.tls);
  name = state.made_upstreams.name_for(std::move(out), backend.section->name);
  return name;
}

}  // namespace sluice::convert::haproxy
