#include "proxy/upstream/endpoint.h"

#include <algorithm>
#include <cerrno>

#include "absl/strings/str_cat.h"
#include "proxy/config/model/units.h"
#include "proxy/log/run_log.h"

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

UpstreamState::UpstreamState(const config::Upstream& upstream)
    : config_(upstream), slots_(upstream), resolving_(upstream.endpoints.size()) {
  if (upstream.ejection) ejections_ = std::make_unique<Ejections>(slots_, *upstream.ejection);
}

void UpstreamState::set_healthy(size_t index, bool healthy, uint64_t now_ms) {
  EndpointState& e = slots_.state(index);
  if (healthy) e.up_since_ms.store(now_ms, std::memory_order_relaxed);
  e.health.healthy.store(healthy, std::memory_order_relaxed);
  slots_.note_health_change();
}

void UpstreamState::report_success(size_t index, uint64_t now_ms) {
  // Loads first, so that the cache line stays shared among the workers while there are no failures.
  EndpointState& e = slots_.state(index);
  if (e.fails_in_a_row.load(std::memory_order_relaxed) != 0 &&
      e.fails_in_a_row.exchange(0, std::memory_order_relaxed) != 0) {
    log_change(index, now_ms, "takes connections again");
  }
  if (e.down_until_ms.load(std::memory_order_relaxed) == 0) return;
  e.up_since_ms.store(now_ms, std::memory_order_relaxed);
  e.down_until_ms.store(0, std::memory_order_relaxed);
}

void UpstreamState::report_failure(size_t index, uint64_t now_ms, std::string_view why) {
  report_error(index, now_ms);
  EndpointState& e = slots_.state(index);
  const uint32_t fails = e.fails_in_a_row.fetch_add(1, std::memory_order_relaxed) + 1;
  if (fails == config_.max_fails) {
    log_change(index, now_ms,
               absl::StrCat("cannot be connected to (", why, "); it is passed over for ",
                            config::print_duration(config_.fail_timeout), " at a time"));
  } else if (fails == 1) {
    log_change(index, now_ms, absl::StrCat("cannot be connected to (", why, ")"));
  }
  if (config_.max_fails == 0 || fails < config_.max_fails) return;
  e.down_until_ms.store(now_ms + config::milliseconds(config_.fail_timeout), std::memory_order_relaxed);
}

uint64_t UpstreamState::growing_share(size_t index, uint64_t now_ms) const {
  const EndpointState& e = slots_.state(index);
  // The end of a pause after failures also starts slow start.
  const uint64_t since =
      std::max(e.up_since_ms.load(std::memory_order_relaxed), e.down_until_ms.load(std::memory_order_relaxed));
  const auto slow_start_ms = config::milliseconds(config_.slow_start);
  if (since == 0 || now_ms >= since + slow_start_ms) return kFullShare;
  return std::max(kFirstShare, now_ms <= since ? 0 : kFullShare * (now_ms - since) / slow_start_ms);
}

void UpstreamState::log_change(size_t index, uint64_t now_ms, std::string_view what) const {
  static thread_local LogLimit limit;
  if (log_admits(limit, now_ms)) log_endpoint(slots_, index, what);
}

}  // namespace sluice
