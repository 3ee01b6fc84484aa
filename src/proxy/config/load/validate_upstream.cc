#include "proxy/config/load/validate_upstream.h"

#include <algorithm>
#include <cstddef>
#include <string_view>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "proxy/common/suggestions.h"
#include "proxy/common/token.h"
#include "proxy/config/load/scalar.h"
#include "proxy/config/load/validate_http.h"
#include "proxy/upstream/hash_ring.h"
#include "proxy/upstream/maglev_table.h"

namespace sluice::config {
namespace {

// ---- Balancing ----

bool is_hashed(Balance balance) { return balance == Balance::kMaglev || balance == Balance::kRingHash; }

void check_hash(const HashKey& key, Balance balance, const std::string& path, Report& report) {
  if (!is_hashed(balance)) {
    report.error(path, absl::StrCat("has no effect with `balance: ", Scalar<Balance>::print(balance),
                                    "`: it is what `maglev` and `ring_hash` go by"));
  }
  const int keys = (key.header.text().empty() ? 0 : 1) + (key.cookie.empty() ? 0 : 1) + (key.query.empty() ? 0 : 1) +
                   (key.path ? 1 : 0) + (key.source ? 1 : 0);
  if (keys != 1) {
    report.error(path, keys == 0
                           ? "expected `header: NAME`, `cookie: NAME`, `query: NAME`, `path: true` or `source: true`"
                           : "one key only: `header`, `cookie`, `query`, `path` and `source` exclude each other");
  }
  if (key.header.text() == "host") {
    report.error(path + ".header", "Host is no field here: requests for one host would all go to one endpoint");
  }
  check_cookie_name(key.cookie, path + ".cookie", report);
}

// Checks that the values are valid in Set-Cookie (RFC 6265 section 4.1.1).
void check_sticky(const Sticky& sticky, const std::string& path, Report& report) {
  if (!http1::is_token(sticky.cookie) || sticky.cookie.size() > Sticky::kMaxCookieBytes) {
    report.error(path + ".cookie", absl::StrCat("expected the name of a cookie of up to ", Sticky::kMaxCookieBytes,
                                                " characters, got ", in_quotes(sticky.cookie)));
  }
  const auto fits = [](unsigned char c) { return absl::ascii_isgraph(c) && c != ';'; };
  if (!sticky.path.starts_with('/') || sticky.path.size() > Sticky::kMaxPathBytes ||
      !std::all_of(sticky.path.begin(), sticky.path.end(), fits)) {
    report.error(path + ".path", absl::StrCat("expected a path such as / of up to ", Sticky::kMaxPathBytes,
                                              " characters, got ", in_quotes(sticky.path)));
  }
}

// The largest number of endpoints at a time, including all addresses of names.
size_t max_endpoints(const Upstream& upstream) {
  size_t count = 0;
  for (const Endpoint& endpoint : upstream.endpoints)
    count += endpoint.is_resolved() ? upstream.resolve.max_addresses : 1;
  return count;
}

// ---- Health ----

// Bound on the texts that a check sends or searches for. It is far below the size of a head and of the searched body.
constexpr size_t kMaxTextBytes = 1024;

void check_size(const std::string& text, const std::string& path, Report& report) {
  if (text.size() <= kMaxTextBytes) return;
  report.error(path, absl::StrCat("expected at most ", kMaxTextBytes, " bytes, got ", text.size()));
}

void check_http(const HttpCheck& http, const std::string& path, Report& report) {
  if (!http.path.starts_with('/') || !http1::is_visible(http.path)) {
    report.error(path + ".path", absl::StrCat("expected a path such as /healthz, got ", in_quotes(http.path)));
  }
  if (!http.host.empty() && (!http1::is_visible(http.host) || http.host.find('/') != std::string::npos)) {
    report.error(path + ".host", absl::StrCat("expected a host, perhaps with a port, got ", in_quotes(http.host)));
  }
  for (size_t i = 0; i < http.status.size(); ++i) {
    if (http.status[i] >= 200 && http.status[i] <= 599) continue;
    report.error(item_path(path + ".status", i),
                 absl::StrCat("expected a status from 200 to 599, got ", http.status[i]));
  }
  check_size(http.path, path + ".path", report);
  check_size(http.host, path + ".host", report);
  check_size(http.body, path + ".body", report);
}

void check_checks(const HealthCheck& check, const Upstream& upstream, const std::string& path, Report& report) {
  if (check.http && check.grpc) report.error(path, "`http` and `grpc` exclude each other");
  if (check.http) check_http(*check.http, path + ".http", report);
  if (check.grpc) check_size(check.grpc->service, path + ".grpc.service", report);
  if (check.grpc && upstream.protocol != Protocol::kHttp2) {
    report.error(path + ".grpc", "needs `protocol: http2` on the upstream: gRPC runs over HTTP/2");
  }
  const bool have_ports = std::any_of(upstream.endpoints.begin(), upstream.endpoints.end(), [](const Endpoint& each) {
    return !each.address.address().is_set() || each.address.address().kind() != Address::Kind::kUnix;
  });
  if (check.port != 0 && !have_ports) report.error(path + ".port", "has no effect: Unix sockets have no ports");
}

void check_ejection(const Ejection& ejection, const std::string& path, Report& report) {
  if (ejection.consecutive_errors == 0 && ejection.gateway_errors == 0) {
    report.error(path, "expected `consecutive_errors` or `gateway_errors` of at least 1");
  }
  if (ejection.consecutive_errors > 0 && ejection.gateway_errors >= ejection.consecutive_errors) {
    report.error(path + ".gateway_errors",
                 absl::StrCat("has no effect: each of these errors is one of `consecutive_errors`, of which ",
                              ejection.consecutive_errors, " are enough"));
  }
  if (ejection.max_time < ejection.time) {
    report.error(path + ".max_time", absl::StrCat("expected at least `time`, which is ", print_duration(ejection.time),
                                                  ", got ", print_duration(ejection.max_time)));
  }
}

}  // namespace

// ---- Balancing ----

void check_balancing(const Upstream& upstream, const std::string& path, Report& report) {
  if (upstream.hash) check_hash(*upstream.hash, upstream.balance, path + ".hash", report);
  if (upstream.sticky) check_sticky(*upstream.sticky, path + ".sticky", report);
  const size_t most = upstream.balance == Balance::kMaglev ? MaglevTable::kMaxMembers : HashRing::kMaxPoints;
  const size_t count = max_endpoints(upstream);
  if (is_hashed(upstream.balance) && count > most) {
    report.error(
        path + ".endpoints",
        absl::StrCat("`balance: ", Scalar<Balance>::print(upstream.balance), "` takes up to ", most, " endpoints, got ",
                     count, count == upstream.endpoints.size() ? "" : ", counting all addresses that names may have"));
  }
}

// ---- Health ----

void check_health(const Upstream& upstream, const std::string& path, Report& report) {
  if (upstream.health_check) check_checks(*upstream.health_check, upstream, path + ".health_check", report);
  if (upstream.ejection) check_ejection(*upstream.ejection, path + ".ejection", report);
}

// ---- Concurrency ----

void check_concurrency(const Upstream& upstream, const std::string& path, Report& report) {
  const auto& adaptive = upstream.adaptive_concurrency;
  if (adaptive && adaptive->max < adaptive->min) {
    report.error(path + ".adaptive_concurrency.max",
                 absl::StrCat("expected at least `min`, which is ", adaptive->min, ", got ", adaptive->max));
  }
}

}  // namespace sluice::config
