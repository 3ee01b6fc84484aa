#include "proxy/http/proxy/health_checker.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "net/worker.h"
#include "proxy/http/proxy/http_worker.h"
#include "proxy/log/run_log.h"
#include "proxy/upstream/endpoint_log.h"
#include "sluice/internal/check.h"

namespace sluice {

HealthChecker::HealthChecker(HttpWorker& worker, Balancer& balancer, Observer* observer)
    : balancer_(balancer), observer_(observer), shared_(worker, balancer.upstream(), *this) {
  for (uint32_t i = 0; i < shared_.upstream.size(); ++i) {
    endpoints_.push_back(std::make_unique<Endpoint>(*this, i, shared_.config()));
  }
}

HealthChecker::~HealthChecker() { SLUICE_CHECK(connections_.empty() && idle()); }

void HealthChecker::follow_endpoints() {
  if (closed_) return;
  balancer_.follow_endpoints();
  for (auto& endpoint : endpoints_) {
    if (!balancer_.view().is_present(endpoint->index)) {
      endpoint->timer.cancel();
    } else if (!endpoint->checking && !endpoint->timer.armed()) {
      check(*endpoint);
    }
  }
}

void HealthChecker::close() {
  if (std::exchange(closed_, true)) return;
  for (auto& endpoint : endpoints_) endpoint->timer.cancel();
  const std::vector<CheckConnection*> connections = connections_;
  for (CheckConnection* const connection : connections) connection->cancel();
}

void HealthChecker::check(Endpoint& endpoint) {
  if (!balancer_.view().is_present(endpoint.index)) return;  // Removed; follow_endpoints() is about to notice.
  const uint32_t incarnation = health_of(endpoint).incarnation.load(std::memory_order_relaxed);
  if (std::exchange(endpoint.incarnation, incarnation) != incarnation) {
    endpoint.thresholds = CheckThresholds(shared_.config().healthy_after, shared_.config().unhealthy_after);
  }
  // Up to a tenth more, so that checks that began together drift apart.
  const auto interval_ms = config::milliseconds(shared_.config().interval);
  endpoint.next_ms = now_ms() + interval_ms + shared_.worker.random().below(interval_ms / 10 + 1);
  endpoint.checking = true;
  balancer_.view().hold(endpoint.index);
  auto connection = std::make_unique<CheckConnection>(shared_, endpoint.index);
  connections_.push_back(connection.get());
  connection.release()->begin();  // It owns itself from now on.
}

void HealthChecker::on_checked(CheckConnection& check, CheckConnection::Outcome outcome, std::string_view why) {
  Endpoint& endpoint = *endpoints_[check.endpoint()];
  endpoint.checking = false;
  if (closed_) return;
  // The endpoint may have been removed. The timer checks that.
  shared_.worker.worker().timers().arm(endpoint.timer, std::max(endpoint.next_ms, now_ms() + 1));
  if (outcome == CheckConnection::Outcome::kNotMade) {
    return health_of(endpoint).checks_not_made.add();
  }
  take_result(endpoint, outcome, why);
}

void HealthChecker::take_result(Endpoint& endpoint, CheckConnection::Outcome outcome, std::string_view why) {
  const bool passed = outcome == CheckConnection::Outcome::kPassed;
  EndpointHealth& health = health_of(endpoint);
  if (health.incarnation.load(std::memory_order_relaxed) != endpoint.incarnation) return;  // Of an earlier endpoint.
  health.checks.add();
  if (!passed) health.failed_checks.add();
  // The state differs without a change of the thresholds where it was taken over from another configuration.
  const bool changed = endpoint.thresholds.take(passed), healthy = endpoint.thresholds.healthy();
  if (observer_ != nullptr) return observer_->on_result(endpoint.index, healthy, outcome, why);
  if (changed || health.healthy.load(std::memory_order_relaxed) != healthy) {
    return shared_.upstream.set_healthy(endpoint.index, healthy, now_ms(), why);
  }
  if (!passed && log_enabled(LogLevel::kDebug)) {
    log_endpoint_event(shared_.upstream.slots(), endpoint.index, absl::StrCat("has failed a health check: ", why));
  }
}

void HealthChecker::on_check_gone(CheckConnection& check) {
  balancer_.view().let_go(check.endpoint());
  std::erase(connections_, &check);
}

EndpointHealth& HealthChecker::health_of(const Endpoint& endpoint) {
  return shared_.upstream.endpoint(endpoint.index).health;
}

uint64_t HealthChecker::now_ms() const { return shared_.worker.worker().now_ms(); }

}  // namespace sluice
