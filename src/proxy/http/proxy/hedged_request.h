#pragma once

#include <cstdint>
#include <optional>

#include "proxy/http/proxy/upstream_request.h"

namespace sluice {

/// A second copy of a request, to another endpoint of its upstream, sent while the first endpoint has not responded.
/// The request owns it, is notified of the result, and takes over its stream if the hedge wins.
class HedgedRequest final : public UpstreamRequest {
 public:
  /// The request that is hedged.
  class Owner : public UpstreamRequest {
   public:
    /// Sends the whole request on the hedge's stream. Returns the time in milliseconds.
    virtual uint64_t send_hedge(HttpStream& stream) = 0;
    /// Takes the head of the hedge's final response. From then on the stream belongs to this request, or is released.
    virtual void on_hedge_response(Head&& head, bool end) = 0;
    /// The hedge has failed. Ends it.
    virtual void end_hedge() = 0;

   protected:
    ~Owner() = default;
  };

  HedgedRequest(Owner& owner, HttpUpstream& to);

  /// Looks for an endpoint. If this fails at once, its owner has ended the hedge before begin() returns.
  void begin() { call(); }
  /// Leaves its endpoint: nothing calls the hedge from now on.
  void end();
  /// When it was sent; 0: it has no connection yet.
  uint64_t sent_ms() const { return sent_ms_; }
  /// Its final response has this status, and is not used.
  void note_refused(uint16_t status, uint64_t now_ms) {
    report_response(status, now_ms);
    leave_place(status);
  }
  // UpstreamCaller
  config::Priority priority() const override { return config::Priority::kLow; }

 private:
  // StreamReceiver. Once the head of the final response arrives, the stream has another receiver.
  void on_head(HttpStream&, Head&& head, bool end) override;
  void on_body(HttpStream&, Buffer&&, bool) override {}
  void on_trailers(HttpStream&, Fields&&) override {}
  void on_reset(HttpStream&, ResetReason reason) override;
  void on_drained(HttpStream&) override {}
  // UpstreamCaller
  RequestAttributes facts() const override;
  std::optional<uint32_t> beside() const override;
  void on_upstream(UpstreamConnection& connection, HttpStream& stream) override;
  void on_no_upstream(HttpEnd) override;
  void on_connect_failed() override;

  Owner& owner_;
  uint64_t sent_ms_ = 0;
};

}  // namespace sluice
