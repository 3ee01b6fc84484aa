#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>

#include "proxy/config/model/config.h"
#include "proxy/config/model/snapshot.h"
#include "proxy/upstream/endpoint_table.h"

namespace sluice {

/// Whether a status is an error of the endpoint. 501 and 505 are not: they reject the client's choice of method or
/// version (RFC 9110 sections 15.6.2 and 15.6.6).
constexpr bool is_endpoint_error(uint32_t status) { return status >= 500 && status != 501 && status != 505; }

/// Ejects endpoints whose responses are errors from the choice for a time. One object for each upstream, shared by the
/// workers, which report the outcome of each request. An outcome without an error costs two loads.
///
/// The first ejection lasts config::Ejection::time. Each ejection that follows soon lasts one `time` longer, up to
/// `max_time`; for each `time` that the endpoint has served in between, one earlier ejection is forgotten. At most
/// `max_share` of the endpoints are ejected at once, but at least one may be, and never the last usable one.
///
/// There is no timer: an endpoint returns with the first choice after its ejection has expired.
class Ejections {
 public:
  /// `slots` outlives it.
  Ejections(EndpointTable& slots, config::Snapshot<config::Ejection> config)
      : slots_(slots), config_(std::move(config)) {}

  /// The endpoint sent a response with this status.
  void on_response(size_t endpoint, uint32_t status, uint64_t now_ms);
  /// For protocols without responses: a connection was made.
  void on_success(size_t endpoint);
  /// The endpoint sent no response or an incomplete one, or could not be connected to. `why`: in a few words, for the
  /// log.
  void on_error(size_t endpoint, uint64_t now_ms, std::string_view why = {});

  /// Notices the ejections that the endpoints' states have taken over from an earlier configuration.
  void resume() { next_return_ms_.store(0, std::memory_order_relaxed); }

  /// Ends expired ejections. Called before each choice, and by users of a view of the endpoints. Usually one load.
  void end_expired_ejections(uint64_t now_ms) {
    if (now_ms >= next_return_ms_.load(std::memory_order_relaxed)) end_due_ejections(now_ms);
  }
  /// The number of ejections that were refused because too many endpoints were ejected already, or it was the last
  /// usable one.
  uint64_t refused() const { return refused_.load(std::memory_order_relaxed); }

 private:
  // An error: a response with `status`, or else `why`.
  struct Error {
    uint64_t now_ms;
    uint32_t status = 0;
    std::string_view why = {};
  };

  void end_due_ejections(uint64_t now_ms);
  void count(std::atomic<uint32_t>& in_a_row, uint32_t limit, size_t endpoint, const char* what, const Error& error);
  void eject(size_t endpoint, uint32_t errors, const char* what, const Error& error);
  bool may_eject(size_t endpoint, uint64_t now_ms) const;
  uint64_t next_time_ms(size_t endpoint, uint64_t now_ms) const;
  void return_at(uint64_t due_ms);

  EndpointTable& slots_;
  const config::Snapshot<config::Ejection> config_;
  std::atomic<uint64_t> next_return_ms_{UINT64_MAX};
  std::atomic_flag ejecting_;  // Set while a worker ejects an endpoint.
  std::atomic<uint64_t> refused_{0};
};

}  // namespace sluice
