#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "proxy/config/model/config.h"

namespace sluice {

class UpstreamState;

/// Whether a status is an error of the endpoint. 501 and 505 reject what the client chose, its method and its version
/// (RFC 9110 sections 15.6.2 and 15.6.6).
constexpr bool is_endpoint_error(uint32_t status) { return status >= 500 && status != 501 && status != 505; }

/// Passes over endpoints of an upstream whose answers are errors, for a time: shared by the workers, and told what
/// became of each request. While all is well that costs two loads.
///
/// The first ejection lasts config::Ejection::time; each that follows soon lasts one `time` longer, up to `max_time`;
/// and for each `time` that the endpoint has served in between, one is forgotten. No more than `max_share` of the
/// endpoints are out at once, though one may always be; and never the last one that could be chosen.
///
/// There is no timer: an endpoint is back with the first choice that is made when its time is over.
class Ejections {
 public:
  /// Both outlive it.
  Ejections(UpstreamState& upstream, const config::Ejection& config) : upstream_(upstream), config_(config) {}

  /// A response has come, with this status.
  void on_answer(size_t endpoint, uint32_t status, uint64_t now_ms);
  /// Where there are no responses: a connection was made.
  void on_success(size_t endpoint);
  /// No response has come, or it broke off; or there was no connection.
  void on_error(size_t endpoint, uint64_t now_ms);

  /// Brings back those whose time is over. Before each choice, and by who has a view of the endpoints: one load,
  /// mostly.
  void bring_back(uint64_t now_ms) {
    if (now_ms >= next_return_ms_.load(std::memory_order_relaxed)) bring_back_due(now_ms);
  }
  /// Ejections that did not take place, since too many were out, or it was the last.
  uint64_t refused() const { return refused_.load(std::memory_order_relaxed); }

 private:
  void bring_back_due(uint64_t now_ms);
  void count(std::atomic<uint32_t>& in_a_row, uint32_t limit, size_t endpoint, const char* what, uint64_t now_ms);
  void eject(size_t endpoint, uint32_t errors, const char* what, uint64_t now_ms);
  bool may_eject(size_t endpoint, uint64_t now_ms) const;
  uint64_t next_time_ms(size_t endpoint, uint64_t now_ms) const;
  void return_at(uint64_t due_ms);

  UpstreamState& upstream_;
  const config::Ejection& config_;
  std::atomic<uint64_t> next_return_ms_{UINT64_MAX};
  std::atomic_flag ejecting_;  // A worker is at it.
  std::atomic<uint64_t> refused_{0};
};

}  // namespace sluice
