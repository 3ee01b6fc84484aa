#include "proxy/config/load/validate_health.h"

#include <algorithm>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "proxy/common/suggestions.h"
#include "proxy/common/token.h"

namespace sluice::config {
namespace {

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
    report.error(absl::StrCat(path, ".status[", i, "]"),
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

void check_health(const Upstream& upstream, const std::string& path, Report& report) {
  if (upstream.health_check) check_checks(*upstream.health_check, upstream, path + ".health_check", report);
  if (upstream.ejection) check_ejection(*upstream.ejection, path + ".ejection", report);
}

}  // namespace sluice::config
