#pragma once

#include <cstddef>
#include <cstdint>
#include <new>
#include <string_view>
#include <utility>

#include "net/timer_wheel.h"
#include "proxy/http/message/head.h"
#include "proxy/http/proxy/exchange_memory.h"
#include "proxy/http/proxy/http_worker.h"
#include "proxy/http/proxy/phases/side_call.h"
#include "proxy/http/proxy/upstream_request.h"
#include "sluice/buffer.h"

namespace sluice {

/// A request of the proxy itself, for whose response a client's request waits. It lies in memory of the HttpWorker,
/// notifies its caller once, and returns that memory at the end of the turn in which it is over.
class SideRequest : public UpstreamRequest, public SideCall {
 public:
  /// The largest body of a response, in bytes. A larger one makes the request fail.
  static constexpr size_t kMaxBodyBytes = size_t{64} * 1024;

  // SideCall
  void cancel() final;

  HttpWorker& http_worker() const { return worker_; }

 protected:
  /// `request` has no scheme yet, and perhaps no authority.
  SideRequest(HttpWorker& worker, HttpUpstream& to, Head&& request, Caller& caller);
  virtual ~SideRequest() = default;

  /// Makes a request of this kind and starts it; it must be over within `timeout_ms`. Returns null if it has notified
  /// the caller already.
  template <class Kind, class... Args>
  static SideCall* begin_of(HttpWorker& worker, uint64_t timeout_ms, Args&&... args) {
    static_assert(sizeof(Kind) <= ExchangeMemory::kBlockBytes);
    return (new (worker.exchange_memory().take()) Kind(worker, std::forward<Args>(args)...))->start(timeout_ms);
  }

  /// Why the request cannot be sent, a literal; empty if it can.
  virtual std::string_view find_flaw() const { return {}; }
  /// Sends the request to the stream that it has got.
  virtual void send(HttpStream& stream) = 0;

  /// Notes the status of the response's head for the endpoint's health and for retries.
  void note_response(uint16_t status);
  /// Adds to `body_`. Returns false if it is too large: then the request has failed.
  [[nodiscard]] bool take_body(Buffer&& body);
  /// Whether the caller still waits.
  bool awaited() const { return caller_ != nullptr; }
  /// Notifies the caller, unless it was notified before.
  void notify(Outcome outcome, std::string_view error = {});
  /// The response has ended: leaves the upstream, and notifies the caller.
  void finish(Outcome outcome, std::string_view error = {});
  /// The same before the response has ended.
  void give_up(Outcome outcome, std::string_view error);

  HttpWorker& worker_;
  Head request_;   // Cleared when the response begins.
  Head response_;  // Empty before it begins.
  Buffer body_;    // Of the response.

 private:
  friend HttpWorker;  // Destroys it.

  SideCall* start(uint64_t timeout_ms);
  // StreamReceiver
  void on_reset(HttpStream&, ResetReason) final;
  void on_drained(HttpStream&) final {}
  // UpstreamCaller
  void on_upstream(UpstreamConnection& connection, HttpStream& stream) final;
  void on_no_upstream(HttpEnd why) final;
  void on_connect_failed() final { call(); }

  [[nodiscard]] bool complete_head();
  [[nodiscard]] bool take_another(ResetReason reason);
  void on_timer();

  Caller* caller_;       // Null once it is notified.
  size_t received_ = 0;  // Bytes of the response's body.
  uint64_t sent_ms_ = 0;
  bool used_connection_ = false;  // Other requests used the connection before.
  bool over_ = false;
  Timer timer_;
};

}  // namespace sluice
