#include "proxy/cli/forward_words.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "proxy/cli/balancing_words.h"
#include "proxy/config/load/scalar.h"
#include "proxy/config/model/units.h"
#include "proxy/http/message/message_rules.h"
#include "sluice/internal/check.h"

namespace sluice {
namespace {

using Parts = std::vector<std::string>;

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
  Parts parts;
  const uint64_t body = max_body_bytes(http, route);
  if (body > 0) parts.push_back(absl::StrCat("body ", config::print_size({body})));
  if (upstream.max_connections_per_endpoint > 0) {
    parts.push_back(absl::StrCat(upstream.max_connections_per_endpoint, " requests to one endpoint"));
  }
  parts.push_back(absl::StrCat(upstream.connect_attempts, " connections tried"));
  parts.push_back(absl::StrCat(upstream.pool.max_pending, " requests waiting for one"));
  parts.push_back(
      absl::StrCat("retries ", upstream.retry_budget.percent, " %, or ", upstream.retry_budget.min, " in ten seconds"));
  return absl::StrJoin(parts, ", ");
}

// The health checks and the ejection of an upstream.
std::string health_of(const config::Upstream& upstream) {
  Parts parts;
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
  lines.add("retry", absl::StrCat(retry.attempts, " attempts in all, for ",
                                  retry.on.empty() ? "connect_failure, refused" : absl::StrJoin(retry.on, ", ", word)));
  if (retry.hedge_after.count() == 0) return;
  lines.add("hedge", is_idempotent(method)
                         ? absl::StrCat("another endpoint after ", config::print_duration(retry.hedge_after),
                                        " without a response, as one of the attempts")
                         : absl::StrCat("none: ", method, " is not idempotent"));
}

}  // namespace

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
  if (route.mirror) lines.add("mirror", absl::StrCat(route.mirror->percent, " % to ", route.mirror->to));
}

}  // namespace sluice
