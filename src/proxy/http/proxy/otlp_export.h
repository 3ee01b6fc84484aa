#pragma once

#include <cstdint>
#include <string_view>

#include "net/timer_wheel.h"
#include "proxy/http/message/head.h"
#include "proxy/http/proxy/upstream_request.h"
#include "sluice/buffer.h"

namespace sluice {

class HttpWorker;

/// One request to a collector. It lies in memory of the HttpWorker, notifies its owner once when it is over, and
/// returns that memory at the end of the turn.
class OtlpExport final : public UpstreamRequest {
 public:
  class Owner {
   public:
    /// It is over. `error`: why its records may not have arrived, or empty.
    virtual void on_exported(uint32_t records, std::string_view error) = 0;

   protected:
    ~Owner() = default;
  };

  /// Makes a request with this body, of `records` records. `owner` outlives the notification. Next: set_timeout(),
  /// start().
  static OtlpExport* make(HttpWorker& worker, HttpUpstream& to, Owner& owner, std::string_view path, uint32_t records,
                          Buffer&& body);
  /// May notify the owner before it returns.
  void start();
  /// It fails unless it is over within this time.
  void set_timeout(uint64_t ms);

 private:
  friend HttpWorker;  // Destroys it.
  OtlpExport(HttpWorker& worker, HttpUpstream& to, Owner& owner, std::string_view path, uint32_t records,
             Buffer&& body);
  ~OtlpExport() = default;

  HttpWorker& http_worker() const { return worker_; }
  // StreamReceiver
  void on_head(HttpStream&, Head&& head, bool end) override;
  void on_body(HttpStream&, Buffer&& body, bool end) override;
  void on_trailers(HttpStream&, Fields&&) override { finish(); }
  void on_reset(HttpStream&, ResetReason) override;
  void on_drained(HttpStream&) override {}
  // UpstreamCaller
  void on_upstream(UpstreamConnection& connection, HttpStream& stream) override;
  void on_no_upstream(HttpEnd why) override;
  void on_connect_failed() override { call(); }

  [[nodiscard]] bool write_head();
  void on_timer();
  void fail(std::string_view why);
  void finish();

  HttpWorker& worker_;
  Owner* owner_;  // Null once it is notified.
  const std::string_view path_;
  const uint32_t records_;
  uint16_t status_ = 0;
  std::string_view error_;  // A literal, or the name of an HttpEnd.
  Head head_;
  Buffer body_;
  Timer timer_;
};

}  // namespace sluice
