#include "proxy/xds/endpoint_checks.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "proxy/http/proxy/health_checker.h"
#include "proxy/log/run_log.h"
#include "proxy/upstream/balancer.h"
#include "proxy/upstream/endpoint.h"
#include "proxy/upstream/endpoint_log.h"

namespace sluice::xds {
namespace {

// Each change says something of its own, and many endpoints may fail at once.
constexpr uint32_t kChangesPerSecond = 100;

config::Upstream upstream_of(const CheckSettings& settings, const CheckTarget& target) {
  config::Upstream upstream = settings.upstream;
  upstream.endpoints.push_back({.address = target.address, .srv = {}});
  config::HealthCheck& check = *upstream.health_check;
  if (target.port != 0) check.port = target.port;
  if (target.address.kind() == config::Address::Kind::kUnix) check.port = 0;
  if (check.http && !target.host.empty()) check.http->host = target.host;
  return upstream;
}

}  // namespace

/// One of them: an upstream with one endpoint that gets no requests but checks.
class EndpointChecks::Check final : private HealthChecker::Observer {
 public:
  Check(HttpWorker& worker, const CheckSettings& settings, const CheckTarget& target, const Check* before)
      : worker_(worker),
        upstream_(upstream_of(settings, target)),
        balancer_(upstream_, /*seed=*/0),
        checker_(worker, balancer_, this),
        status_(before != nullptr ? before->status_ : HealthStatus::kUnknown),
        unhealthy_since_ms_(before != nullptr ? before->unhealthy_since_ms_ : 0) {
    renew_certificates(settings);
  }

  void start() { checker_.start(); }
  void close() { checker_.close(); }
  bool idle() const { return checker_.idle(); }
  /// kUnknown: there is no outcome yet.
  HealthStatus status() const { return status_; }
  void renew_certificates(const CheckSettings& settings) {
    if (settings.tls) upstream_.tls.replace(bssl::UpRef(settings.tls));
  }

 private:
  void on_result(uint32_t endpoint, bool healthy, CheckConnection::Outcome outcome, std::string_view why) override {
    // One success among failures does not say what is wrong.
    if (!healthy && outcome == CheckConnection::Outcome::kPassed) return;
    const HealthStatus before = status_;
    status_ = healthy                                          ? HealthStatus::kHealthy
              : outcome == CheckConnection::Outcome::kTimedOut ? HealthStatus::kTimeout
                                                               : HealthStatus::kUnhealthy;
    const bool was_healthy = before == HealthStatus::kHealthy || before == HealthStatus::kUnknown;
    if (healthy == was_healthy) return;
    const uint64_t now_ms = worker_.worker().now_ms();
    const uint64_t since_ms = std::exchange(unhealthy_since_ms_, healthy ? 0 : now_ms);
    log_change(
        upstream_.describe(endpoint),
        healthy ? absl::StrCat("is healthy again", after_text(since_ms, now_ms)) : absl::StrCat("is unhealthy: ", why),
        why, now_ms);
  }

  void log_change(std::string_view endpoint, std::string_view what, std::string_view why, uint64_t now_ms) const {
    static thread_local LogLimit limit(kChangesPerSecond);
    if (!log_enabled(LogLevel::kWarning) || !log_admits(limit, now_ms)) return;
    const std::string& cluster = upstream_.config().name;
    log_line(LogLevel::kWarning,
             absl::StrCat("xds: health discovery: cluster \"", cluster, "\": endpoint ", endpoint, " ", what,
                          left_out_text(limit)),
             {.upstream = cluster, .endpoint = endpoint, .reason = why});
  }

  HttpWorker& worker_;
  UpstreamState upstream_;
  Balancer balancer_;
  HealthChecker checker_;
  HealthStatus status_;
  uint64_t unhealthy_since_ms_;
};

EndpointChecks::EndpointChecks(HttpWorker& worker, const CheckTarget& target,
                               const std::vector<std::shared_ptr<CheckSettings>>& settings,
                               const EndpointChecks* before)
    : settings_(settings) {
  for (size_t i = 0; i < settings.size(); ++i) {
    const bool is_known = before != nullptr && i < before->checks_.size();
    checks_.push_back(
        std::make_unique<Check>(worker, *settings[i], target, is_known ? before->checks_[i].get() : nullptr));
  }
}

EndpointChecks::~EndpointChecks() = default;

void EndpointChecks::start() {
  for (const auto& each : checks_) each->start();
}

void EndpointChecks::close() {
  for (const auto& each : checks_) each->close();
}

bool EndpointChecks::idle() const {
  return std::all_of(checks_.begin(), checks_.end(), [](const auto& each) { return each->idle(); });
}

HealthStatus EndpointChecks::status() const {
  HealthStatus status = HealthStatus::kHealthy;
  for (const auto& each : checks_) {
    if (each->status() == HealthStatus::kTimeout) return HealthStatus::kTimeout;
    if (each->status() != HealthStatus::kHealthy) status = HealthStatus::kUnhealthy;
  }
  return status;
}

void EndpointChecks::renew_certificates() {
  for (size_t i = 0; i < checks_.size(); ++i) checks_[i]->renew_certificates(*settings_[i]);
}

}  // namespace sluice::xds
