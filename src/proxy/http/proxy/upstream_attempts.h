#pragma once

#include <cstdint>
#include <optional>

#include "proxy/common/random.h"
#include "proxy/config/model/retry.h"
#include "proxy/http/message/head.h"
#include "proxy/http/proxy/hedged_request.h"
#include "sluice/chunk_pointer.h"

namespace sluice {

/// The attempts of one request at its upstream: how many there were, and whether there may be another. A request is
/// resent after a failure (a retry), or sent to a second endpoint too while the first is slow (a hedge).
class UpstreamAttempts : public HedgedRequest::Owner {
 public:
  // HedgedRequest::Owner
  void end_hedge() final;

 protected:
  /// The retry policy of a route, if it has one. Without one, only requests that no endpoint has processed are retried.
  using Policy = std::optional<config::Retry>;

  ~UpstreamAttempts() = default;

  /// How often the request was sent, without the attempts that perhaps no endpoint saw.
  uint32_t tries() const { return uint32_t{sent_} - lost_unseen_; }
  bool by_hedge() const { return by_hedge_; }
  /// Whether no hedge was made, nor found to be impossible, since the request was last sent.
  bool may_hedge() const { return !hedged_; }

  static bool is_retried_on(const Policy& policy, config::RetryOn why);
  /// The reason to retry instead of passing this response on, if any.
  static std::optional<config::RetryOn> retry_reason(const Policy& policy, const Head& head, bool end, bool grpc);
  /// Whether a request that can be resent is retried. If so, this counts as a retry.
  [[nodiscard]] bool take_retry(const Policy& policy, config::RetryOn why, bool idempotent, uint64_t now_ms);
  /// The same for an attempt that perhaps no endpoint saw.
  [[nodiscard]] bool take_unseen_retry(uint64_t now_ms);
  /// Whether the endpoint closed an idle connection and perhaps never saw the request. Such an attempt does not count.
  bool is_lost_unseen(ResetReason reason) const {
    return reason == ResetReason::kConnectionLost && used_connection_ && attempts_left() && may_repeat();
  }

  /// The first step of on_upstream: the request is sent.
  void begin_attempt(UpstreamConnection& connection, HttpStream& stream);
  /// Prepares a retry, preferably at another endpoint. Returns how many milliseconds to wait before it.
  uint64_t prepare_retry(const Policy& policy, Random& random);
  /// Prepares a retry of an attempt that perhaps no endpoint saw: on a new connection.
  void prepare_unseen_retry();
  void begin_resend() { hedged_ = by_hedge_ = false; }

  /// Looks for a second endpoint, if that is possible. Called once for each attempt, whatever comes of it.
  void begin_hedge(const config::Retry& policy, bool possible, ChunkPool& pool, uint64_t now_ms);
  void note_hedge_sent();
  /// Ends the hedge because of its response.
  void refuse_hedge(uint16_t status, uint64_t now_ms);
  /// Continues as if the first endpoint had never been used. Returns when the hedge was sent; 0: it has no connection.
  uint64_t switch_to_hedge();

  ChunkPointer<HedgedRequest> hedge_;  // Until it or the first endpoint has responded.

 private:
  /// The hedge may be at work, so it is destroyed at the end of the turn.
  void retire_hedge();
  bool note_budget(bool within);

  uint16_t sent_ = 0;             // How often the request was sent.
  uint16_t lost_unseen_ = 0;      // How many of these attempts perhaps no endpoint saw.
  bool used_connection_ = false;  // Other requests used the connection before.
  bool hedged_ = false;
  bool by_hedge_ = false;  // The request has switched to its hedge.
};

}  // namespace sluice
