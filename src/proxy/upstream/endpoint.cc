#include "proxy/upstream/endpoint.h"

#include <algorithm>
#include <cerrno>
#include <string>

#include "absl/strings/str_cat.h"
#include "proxy/config/model/units.h"
#include "proxy/log/run_log.h"
#include "proxy/upstream/endpoint_log.h"

namespace sluice {

namespace {

// The initial share in slow start: enough to find out whether the endpoint works. Equals Envoy's min_weight_percent.
constexpr uint64_t kFirstShare = UpstreamState::kFullShare / 10;

}  // namespace

const char* connect_error_name(ConnectError error) {
  switch (error) {
    case ConnectError::kRefused:
      return "refused";
    case ConnectError::kTimeout:
      return "timeout";
    case ConnectError::kUnreachable:
      return "unreachable";
    case ConnectError::kReset:
      return "reset";
    case ConnectError::kLocal:
      return "local";
    case ConnectError::kTls:
      return "tls";
    case ConnectError::kOther:
      return "other";
  }
  return "other";
}

ConnectError connect_error_of(int error) {
  switch (error) {
    case ECONNREFUSED:
    case ENOENT:  // A Unix socket that does not exist.
      return ConnectError::kRefused;
    case ETIMEDOUT:
      return ConnectError::kTimeout;
    case ENETUNREACH:
    case EHOSTUNREACH:
    case ENETDOWN:
      return ConnectError::kUnreachable;
    case ECONNRESET:
    case EPIPE:
      return ConnectError::kReset;
    case EMFILE:
    case ENFILE:
    case ENOMEM:
    case ENOBUFS:
    case EADDRNOTAVAIL:
    case EACCES:
    case EPERM:
      return ConnectError::kLocal;
    default:
      return ConnectError::kOther;
  }
}

UpstreamState::UpstreamState(config::Snapshot<config::Upstream> upstream, size_t added_slots)
    : config_(std::move(upstream)), slots_(config_, added_slots), resolving_(config_->endpoints.size()) {
  if (config_->ejection) ejections_ = std::make_unique<Ejections>(slots_, config_.part(*config_->ejection));
}

void UpstreamState::continue_from(const UpstreamState& old) {
  slots_.continue_from(old.slots_);
  changes_.continue_from(old.changes_);
  slots_.continue_states(old.slots_);
  for (size_t i = 0; i < slots_.size(); ++i) {
    EndpointHealth& health = slots_.state(i).health;
    // Nothing would end these states.
    if (!config_->health_check) health.healthy.store(true, std::memory_order_relaxed);
    if (!config_->ejection) health.ejected_until_ms.store(0, std::memory_order_relaxed);
  }
  if (ejections_) ejections_->resume();
}

void UpstreamState::set_healthy(size_t index, bool healthy, uint64_t now_ms, std::string_view why) {
  EndpointState& e = slots_.state(index);
  if (healthy) e.up_since_ms.store(now_ms, std::memory_order_relaxed);
  const bool changed = e.health.healthy.exchange(healthy, std::memory_order_relaxed) != healthy;
  slots_.note_health_change();
  if (!changed) return;
  const uint64_t since_ms = e.health.unhealthy_since_ms.exchange(healthy ? 0 : now_ms, std::memory_order_relaxed);
  if (healthy)
    return log_endpoint(slots_, index, now_ms, absl::StrCat("is healthy again", after_text(since_ms, now_ms)));
  log_endpoint(slots_, index, now_ms, absl::StrCat("is unhealthy: ", why), why);
}

void UpstreamState::report_success(size_t index, uint64_t now_ms) {
  // Loads first, so that the cache line stays shared among the workers while there are no failures.
  EndpointState& e = slots_.state(index);
  if (e.fails_in_a_row.load(std::memory_order_relaxed) != 0) e.fails_in_a_row.store(0, std::memory_order_relaxed);
  if (e.down_until_ms.load(std::memory_order_relaxed) != 0) {
    e.up_since_ms.store(now_ms, std::memory_order_relaxed);
    e.down_until_ms.store(0, std::memory_order_relaxed);
  }
  if (e.failing_since_ms.load(std::memory_order_relaxed) == 0) return;
  const uint64_t since_ms = e.failing_since_ms.exchange(0, std::memory_order_relaxed);
  if (since_ms == 0) return;  // Another worker logs it.
  log_endpoint(slots_, index, now_ms, absl::StrCat("takes connections again", after_text(since_ms, now_ms)));
}

void UpstreamState::report_failure(size_t index, uint64_t now_ms, ConnectError error, std::string_view detail) {
  report_error(index, now_ms, detail.empty() ? connect_error_name(error) : detail);
  EndpointState& e = slots_.state(index);
  const uint32_t fails = e.fails_in_a_row.fetch_add(1, std::memory_order_relaxed) + 1;
  if (config_->max_fails != 0 && fails >= config_->max_fails) {
    e.down_until_ms.store(now_ms + config::milliseconds(config_->fail_timeout), std::memory_order_relaxed);
  }
  if (fails != 1 && fails != config_->max_fails && !log_enabled(LogLevel::kDebug)) return;
  std::string why(detail.empty() ? connect_error_name(error) : detail);
  if (detail.empty() && error == ConnectError::kTimeout) {
    absl::StrAppend(&why, " after ", config::print_duration(config_->connect_timeout));
  }
  log_failing(index, now_ms, fails, why);
}

// A failure that is no change is for `level: debug` only. So is one of an endpoint that is out anyway, and the first
// one of several that are needed where health checks or ejection find out whether the endpoint works.
void UpstreamState::log_failing(size_t index, uint64_t now_ms, uint32_t fails, std::string_view why) {
  EndpointState& e = slots_.state(index);
  const bool passed_over = fails == config_->max_fails;
  const bool is_change = passed_over || (fails == 1 && !config_->health_check && !ejections_);
  if (!is_change || !e.health.in()) {
    return log_endpoint_event(slots_, index, absl::StrCat("cannot be connected to (", why, ")"));
  }
  // 0 stands for "not failing".
  uint64_t none = 0;
  e.failing_since_ms.compare_exchange_strong(none, std::max<uint64_t>(now_ms, 1), std::memory_order_relaxed);
  log_endpoint(slots_, index, now_ms,
               absl::StrCat("cannot be connected to (", why, ")",
                            passed_over ? absl::StrCat("; it is passed over for ",
                                                       config::print_duration(config_->fail_timeout), " at a time")
                                        : ""),
               why);
}

uint64_t UpstreamState::growing_share(size_t index, uint64_t now_ms) const {
  const EndpointState& e = slots_.state(index);
  // The end of a pause after failures also starts slow start.
  const uint64_t since =
      std::max(e.up_since_ms.load(std::memory_order_relaxed), e.down_until_ms.load(std::memory_order_relaxed));
  const auto slow_start_ms = config::milliseconds(config_->slow_start);
  if (since == 0 || now_ms >= since + slow_start_ms) return kFullShare;
  return std::max(kFirstShare, now_ms <= since ? 0 : kFullShare * (now_ms - since) / slow_start_ms);
}

}  // namespace sluice
