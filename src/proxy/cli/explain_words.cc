#include "proxy/cli/explain_words.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "proxy/auth/credentials.h"
#include "proxy/auth/listener_access.h"
#include "proxy/common/suggestions.h"
#include "proxy/compression/compression_policy.h"
#include "proxy/config/load/scalar.h"
#include "proxy/config/model/units.h"
#include "proxy/http/message/message_rules.h"
#include "proxy/http/proxy/forward_head.h"
#include "proxy/router/request_key.h"
#include "proxy/router/request_match.h"
#include "proxy/upstream/balancer.h"
#include "proxy/upstream/sticky_cookie.h"
#include "sluice/internal/check.h"

namespace sluice {
namespace {

using config::in_quotes;

// ---- Conditions ----

std::string in_words(const config::ValueMatch& match) {
  std::vector<std::string> parts;
  const std::pair<std::string_view, const std::string&> all[] = {{"be ", match.exact},
                                                                 {"begin with ", match.prefix},
                                                                 {"end with ", match.suffix},
                                                                 {"have in it ", match.contains},
                                                                 {"fit ", match.regex.text()}};
  for (const auto& [verb, text] : all) {
    if (!text.empty()) parts.push_back(absl::StrCat(verb, in_quotes(text)));
  }
  return absl::StrCat(match.negate ? "must not " : "must ", parts.empty() ? "be there" : absl::StrJoin(parts, " and "));
}

template <class List, class Text>
std::string one_of(const List& list, Text&& text_of) {
  return absl::StrJoin(
      list, ", ", [&](std::string* out, const auto& each) { absl::StrAppend(out, std::string_view(text_of(each))); });
}

std::string in_words(const config::HttpMatch& match, const RequestAttributes& facts, const Mismatch& misfit) {
  std::array<char, ClientIp::kTextBytes> ip;
  switch (misfit.kind) {
    case Mismatch::Kind::kPeer:
      return absl::StrCat("the client has not proven to be ", absl::StrJoin(match.peer, ", "));
    case Mismatch::Kind::kSource:
      return absl::StrCat(facts.client ? facts.client->text(ip) : "", " is not in ",
                          one_of(match.source, [](const config::Cidr& range) { return range.text(); }));
    case Mismatch::Kind::kMethod:
      return absl::StrCat("the method is not ", absl::StrJoin(match.method, ", "));
    case Mismatch::Kind::kPathRegex:
      return absl::StrCat("the path does not fit ", match.path->regex.text());
    case Mismatch::Kind::kHeader: {
      const config::HeaderMatch& header = match.headers[misfit.index];
      return absl::StrCat("the field ", header.name.text(), " ", in_words(header));
    }
    case Mismatch::Kind::kQuery: {
      const config::QueryMatch& parameter = match.query[misfit.index];
      return absl::StrCat("the parameter ", parameter.name, " ", in_words(parameter));
    }
  }
  return "";
}

// ---- Access ----

// Why an address is refused; empty if it is allowed.
std::string why_not_from(const std::vector<config::Cidr>& allow, const std::vector<config::Cidr>& deny,
                         const ClientIp& client, std::string_view whose) {
  if (admits_address(allow, deny, client)) return "";
  std::array<char, ClientIp::kTextBytes> ip;
  const std::string_view text = client.text(ip);
  return admits_address({}, deny, client) ? absl::StrCat(text, " is not in `allow` of the ", whose)
                                          : absl::StrCat(text, " is in `deny` of the ", whose);
}

std::string proof_words(const config::Auth& auth) {
  if (auth.basic) return absl::StrCat("a password, by ", auth.basic->users_file);
  const config::JwtAuth& jwt = *auth.jwt;
  return absl::StrCat("a token, by ", jwt.jwks_file, jwt.issuer.empty() ? "" : absl::StrCat(", of ", jwt.issuer),
                      jwt.audience.empty() ? "" : absl::StrCat(", for ", absl::StrJoin(jwt.audience, " or ")));
}

bool has_proof(const config::Auth& auth, const Fields& fields) {
  return auth.jwt ? find_token(*auth.jwt, fields).has_value() : fields.find("authorization") != Fields::npos;
}

// ---- Balancing ----

std::string in_words(const config::Endpoint& endpoint) {
  std::vector<std::string> remarks;
  if (endpoint.is_resolved()) remarks.push_back("resolved at run time");
  if (endpoint.weight != 1) remarks.push_back(absl::StrCat("weight ", endpoint.weight));
  if (endpoint.priority != 0) remarks.push_back(absl::StrCat("priority ", endpoint.priority));
  return absl::StrCat(endpoint.text(), remarks.empty() ? "" : absl::StrCat(" (", absl::StrJoin(remarks, ", "), ")"));
}

std::string in_words(const config::HashKey& key) {
  if (!key.header.text().empty()) return absl::StrCat("the field ", key.header.text());
  if (!key.cookie.empty()) return absl::StrCat("the cookie ", key.cookie);
  if (!key.query.empty()) return absl::StrCat("the parameter ", key.query);
  return key.path ? "the path" : "the client's address";
}

// Whether some endpoints are names, whose addresses are not known here.
bool has_names(const config::Upstream& upstream) {
  return std::any_of(upstream.endpoints.begin(), upstream.endpoints.end(),
                     [](const config::Endpoint& endpoint) { return endpoint.is_resolved(); });
}

// Describes the endpoints of an upstream and its balancing policy.
std::string endpoints_in_words(const config::Upstream& upstream) {
  std::vector<std::string> endpoints;
  for (const config::Endpoint& endpoint : upstream.endpoints) endpoints.push_back(in_words(endpoint));
  const std::string balance = config::Scalar<config::Balance>::print(upstream.balance);
  return absl::StrCat(endpoints.size() == 1 ? "" : balance + " over ", absl::StrJoin(endpoints, ", "));
}

// Describes which endpoint a request gets while all are up, and why, if the choice is deterministic; and whether the
// response sets a cookie. Empty if neither applies.
std::string chosen_endpoint(const config::Upstream& upstream, const RequestAttributes& facts) {
  if (upstream.endpoints.size() == 1) return "";
  UpstreamState state(upstream);
  Balancer balancer(state, 0);
  const auto name = [&](uint32_t slot) { return state.slots().text(slot); };
  std::string sets_cookie;
  if (upstream.sticky) {
    const auto named = find_sticky(*upstream.sticky, balancer.endpoints(), *facts.fields);
    if (named) return absl::StrCat(name(*named), ", which the cookie ", upstream.sticky->cookie, " names");
    sets_cookie = absl::StrCat("the response sets the cookie ", upstream.sticky->cookie);
  }
  const std::optional<uint64_t> hash = hash_of_request(upstream.hash, facts);
  if (!balancer.needs_hash() || !hash || has_names(upstream)) return sets_cookie;
  const config::HashKey key = upstream.hash.value_or(config::HashKey{.source = true});
  const bool lacks_it = !key.source && find_key(key, facts).empty();
  return absl::StrCat(name(balancer.pick({.hash = hash}).value()), ", by ",
                      lacks_it ? absl::StrCat("the client's address, without ", in_words(key)) : in_words(key),
                      sets_cookie.empty() ? "" : "; ", sets_cookie);
}

// ---- Forwarding ----

const config::Upstream& upstream_named(const config::Config& config, std::string_view name) {
  const auto upstream = std::find_if(config.upstreams.begin(), config.upstreams.end(),
                                     [&](const config::Upstream& each) { return each.name == name; });
  SLUICE_CHECK(upstream != config.upstreams.end());
  return *upstream;
}

std::string times_of(const config::Http& http, const config::HttpRoute& route, const config::Upstream& upstream) {
  const auto time = [](config::Duration duration) {
    return duration.count() == 0 ? std::string("unlimited") : config::print_duration(duration);
  };
  return absl::StrCat("connect ", time(upstream.connect_timeout), ", response ",
                      time(route.response_timeout.value_or(upstream.response_timeout)), ", idle ",
                      time(route.stream_idle_timeout.value_or(http.stream_idle_timeout)), ", whole request ",
                      time(route.request_timeout.value_or(http.request_timeout)));
}

// The limits of a request and its upstream. Beyond them, connections and requests wait or are refused.
std::string limits_of(const config::Http& http, const config::HttpRoute& route, const config::Upstream& upstream) {
  std::vector<std::string> parts;
  const uint64_t body = max_body_bytes(http, route);
  if (body > 0) parts.push_back(absl::StrCat("body ", config::print_size({body})));
  if (upstream.max_connections_per_endpoint > 0) {
    parts.push_back(absl::StrCat(upstream.max_connections_per_endpoint, " requests to one endpoint"));
  }
  parts.push_back(absl::StrCat(upstream.connect_attempts, " connections tried"));
  parts.push_back(absl::StrCat(upstream.pool.max_pending, " requests waiting for one"));
  if (const auto& adaptive = upstream.adaptive_concurrency) {
    parts.push_back(absl::StrCat(adaptive->min, " to ", adaptive->max, " requests in flight, by latency"));
  }
  parts.push_back(
      absl::StrCat("retries ", upstream.retry_budget.percent, " %, or ", upstream.retry_budget.min, " in ten seconds"));
  return absl::StrJoin(parts, ", ");
}

// The health checks and the ejection of an upstream.
std::string health_of(const config::Upstream& upstream) {
  std::vector<std::string> parts;
  if (const auto& check = upstream.health_check) {
    const std::string what = check->http   ? absl::StrCat("GET ", check->http->path)
                             : check->grpc ? absl::StrCat("grpc.health.v1 of \"", check->grpc->service, "\"")
                                           : std::string("a connection");
    parts.push_back(absl::StrCat("checked every ", config::print_duration(check->interval), " by ", what,
                                 check->port == 0 ? "" : absl::StrCat(" at port ", check->port)));
  }
  if (const auto& ejection = upstream.ejection) {
    const auto after = [](uint32_t count, const char* of) {
      return count == 0 ? "" : absl::StrCat(" after ", count, of);
    };
    parts.push_back(absl::StrCat("ejected for ", config::print_duration(ejection->time),
                                 after(ejection->consecutive_errors, " errors in a row"),
                                 ejection->consecutive_errors > 0 && ejection->gateway_errors > 0 ? " or" : "",
                                 after(ejection->gateway_errors, " gateway errors in a row")));
  }
  return absl::StrJoin(parts, "; ");
}

void add_upstream(const config::Http& http, const config::HttpRoute& route, const config::Upstream& upstream,
                  const RequestAttributes& facts, Lines& lines) {
  lines.add("upstream", absl::StrCat(upstream.name, ": ", endpoints_in_words(upstream)));
  if (const std::string chosen = chosen_endpoint(upstream, facts); !chosen.empty()) lines.add("endpoint", chosen);
  lines.add("times", times_of(http, route, upstream));
  lines.add("limits", limits_of(http, route, upstream));
  if (const std::string health = health_of(upstream); !health.empty()) lines.add("health", health);
}

void add_buffer(const config::Config& config, const config::Buffering& buffer, Lines& lines) {
  if (buffer.requests.bytes > 0) {
    lines.add("buffer", absl::StrCat("the request is sent when it is complete, or after ",
                                     config::print_size(buffer.requests), " of its body; not for gRPC"));
  }
  if (buffer.responses.bytes > 0) {
    lines.add("buffer", absl::StrCat("up to ", config::print_size(buffer.responses),
                                     " of the response wait for the client in ", config.body_file.directory));
  }
}

void add_retry(const config::Retry& retry, std::string_view method, Lines& lines) {
  const auto word = [](std::string* out, config::RetryOn on) {
    out->append(config::Scalar<config::RetryOn>::print(on));
  };
  const std::string statuses = absl::StrJoin(retry.retriable_status_codes, ", ");
  lines.add("retry", absl::StrCat(retry.attempts, " attempts in all, for ",
                                  retry.on.empty() ? "connect_failure, refused" : absl::StrJoin(retry.on, ", ", word),
                                  statuses.empty() ? "" : ", ", statuses));
  if (retry.hedge_after.count() == 0) return;
  lines.add("hedge", is_idempotent(method)
                         ? absl::StrCat("another endpoint after ", config::print_duration(retry.hedge_after),
                                        " without a response, as one of the attempts")
                         : absl::StrCat("none: ", method, " is not idempotent"));
}

}  // namespace

// ---- Conditions ----

std::string why_not(const config::HttpMatch& match, const RequestAttributes& facts) {
  const auto is_host = [&](const config::HostPattern& pattern) { return fits_host(pattern, facts.host); };
  if (!match.host.empty() && std::none_of(match.host.begin(), match.host.end(), is_host)) {
    return absl::StrCat("the host is not ", one_of(match.host, [](const config::HostPattern& p) { return p.text(); }));
  }
  if (match.path && !match.path->regex.is_set() && !fits_path(*match.path, facts.path)) {
    const bool exact = !match.path->exact.empty();
    return absl::StrCat("the path is not ", exact ? match.path->exact : absl::StrCat("below ", match.path->prefix));
  }
  const std::optional<Mismatch> misfit = find_mismatch(match, facts);
  return misfit ? in_words(match, facts, *misfit) : "";
}

// ---- Access ----

AccessWords access_words(const config::Http& http, const config::HttpRoute* route, const ClientIp& client,
                         const Head& request) {
  AccessWords words;
  if (route && route->cors) {
    const std::string_view origin = request.fields.value("origin");
    const bool allowed = CorsPolicy(*route->cors).allows(origin);
    const bool preflight = CorsPolicy::is_preflight(request);
    words.lines.emplace_back("cors", origin.empty() ? "not a cross-origin request"
                                                    : absl::StrCat(preflight ? "a preflight of " : "", origin,
                                                                   allowed ? " may" : " may not"));
    if (preflight) {
      words.response = allowed ? "204" : "403, forbidden";
      return words;
    }
  }
  std::string why = why_not_from(http.allow, http.deny, client, "listener");
  if (why.empty() && route) why = why_not_from(route->allow, route->deny, client, "route");
  if (!why.empty()) {
    words.lines.emplace_back("access", std::move(why));
    words.response = "403, forbidden";
    return words;
  }
  if (route && route->maintenance) {
    const bool down = ::access(route->maintenance->file.c_str(), F_OK) == 0;
    words.lines.emplace_back("maintenance",
                             absl::StrCat(route->maintenance->file, down ? " exists" : " does not exist"));
    if (down) {
      words.response = "503, down for maintenance";
      return words;
    }
  }
  if (route && route->auth) {
    const bool proof = has_proof(*route->auth, request.fields);
    words.lines.emplace_back("access",
                             absl::StrCat("needs ", proof_words(*route->auth), proof ? "; assumed valid here" : ""));
    if (!proof) words.response = "401, with WWW-Authenticate";
    if (!proof) return words;
  }
  if (route && route->forward_auth) {
    words.lines.emplace_back("access", absl::StrCat("asks ", route->forward_auth->to, " for ",
                                                    route->forward_auth->path, "; assumed allowed here"));
  }
  if (route && route->ext_authz) {
    words.lines.emplace_back("access",
                             absl::StrCat("asks ", route->ext_authz->to, " by ext_authz; assumed allowed here"));
  }
  return words;
}

// ---- Forwarding ----

std::vector<const config::Upstream*> upstreams_of(const config::Config& config, const config::HttpRoute& route) {
  if (route.split.empty()) return {&upstream_named(config, route.forward)};
  std::vector<const config::Upstream*> all;
  for (const config::SplitTarget& each : route.split) all.push_back(&upstream_named(config, each.forward));
  return all;
}

uint64_t max_body_bytes(const config::Http& http, const config::HttpRoute& route) {
  return route.max_body.value_or(http.max_body).bytes;
}

void add_forward_words(const config::Config& config, const config::Http& http, const config::HttpRoute& route,
                       const RequestAttributes& facts, Lines& lines) {
  if (!route.split.empty()) {
    const auto part = [](std::string* out, const config::SplitTarget& each) {
      absl::StrAppend(out, each.forward, " (weight ", each.weight, ")");
    };
    lines.add("split", absl::StrJoin(route.split, ", ", part));
  }
  for (const config::Upstream* upstream : upstreams_of(config, route)) {
    add_upstream(http, route, *upstream, facts, lines);
  }
  if (route.buffer) add_buffer(config, *route.buffer, lines);
  if (route.retry) add_retry(*route.retry, facts.method, lines);
  for (const config::Mirror& mirror : route.mirror)
    lines.add("mirror", absl::StrCat(mirror.percent, " % to ", mirror.to));
}

// ---- Compression ----

std::string compression_for(const config::Compression& compression, const config::HttpRoute& route,
                            const Head& request) {
  if (!route.compression) return "nothing: the route leaves it out";
  if (is_grpc(request)) return "nothing: gRPC does so itself";
  if (request.method() == "HEAD") return "nothing: a response to HEAD has no body";
  const CompressionPolicy policy(compression);
  const ContentCoding coding = policy.choose(request.fields);
  if (coding == ContentCoding::kIdentity) return "nothing: the client does not accept it (Accept-Encoding)";
  return absl::StrCat(content_coding_name(coding), ", for responses of ", absl::StrJoin(policy.types(), ", "), " from ",
                      config::print_size(compression.min_size), " on");
}

}  // namespace sluice
