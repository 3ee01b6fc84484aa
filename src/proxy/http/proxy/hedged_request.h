#pragma once

#include <cstdint>
#include <optional>

#include "proxy/http/proxy/upstream_request.h"

namespace sluice {

class Exchange;

/// The request of an exchange with another endpoint of its upstream, while the first has not answered. The exchange
/// owns it, hears what becomes of it, and takes its stream over if that is the one to go on with. It leaves its
/// endpoint when it is destroyed.
class HedgedRequest final : public UpstreamRequest {
 public:
  HedgedRequest(Exchange& exchange, HttpUpstream& to);
  ~HedgedRequest();

  /// Looks for an endpoint. It may fail at once, and be destroyed then.
  void begin() { call(); }
  /// When it was sent; 0: it has no connection yet.
  uint64_t sent_ms() const { return sent_ms_; }

 private:
  // StreamReceiver. Its stream has another receiver as soon as the head of the response is here.
  void on_head(HttpStream&, Head&& head, bool end) override;
  void on_body(HttpStream&, Buffer&&, bool) override {}
  void on_trailers(HttpStream&, Fields&&) override {}
  void on_reset(HttpStream&, ResetReason reason) override;
  void on_drained(HttpStream&) override {}
  // UpstreamRequest
  RequestAttributes facts() const override;
  std::optional<uint32_t> beside() const override;
  void on_upstream(UpstreamConnection& connection, HttpStream& stream) override;
  void on_no_upstream(HttpEnd) override;
  void on_connect_failed() override;

  Exchange& exchange_;
  uint64_t sent_ms_ = 0;
};

}  // namespace sluice
