#include "proxy/upstream/endpoint.h"

#include <cerrno>

namespace sluice {

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
    case ENOENT:  // A Unix socket that is not there.
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

void UpstreamState::report_success(size_t index) {
  // A load first: the line stays shared among the workers while all is well.
  EndpointState& e = endpoints_[index];
  if (e.fails_in_a_row.load(std::memory_order_relaxed) != 0) e.fails_in_a_row.store(0, std::memory_order_relaxed);
  if (e.down_until_ms.load(std::memory_order_relaxed) != 0) e.down_until_ms.store(0, std::memory_order_relaxed);
}

void UpstreamState::report_failure(size_t index, uint64_t now_ms) {
  if (config_.max_fails == 0) return;
  EndpointState& e = endpoints_[index];
  if (e.fails_in_a_row.fetch_add(1, std::memory_order_relaxed) + 1 < config_.max_fails) return;
  e.down_until_ms.store(now_ms + static_cast<uint64_t>(config_.fail_timeout.count()), std::memory_order_relaxed);
}

}  // namespace sluice
