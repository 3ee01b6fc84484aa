#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "proxy/admin/admin_pages.h"
#include "proxy/admin/admin_services.h"
#include "proxy/http/proxy/http_connection.h"

namespace sluice {

/// A client's connection to the admin listener, with one request at a time. It destroys itself when it has closed;
/// until then the server outlives it.
class AdminConnection final : public HttpConnection, public HttpCodec::Acceptor, public StreamReceiver {
 public:
  /// A larger body of a request gets a 413.
  static constexpr size_t kMaxBodyBytes = size_t{4} * 1024;

  /// Serves an accepted connection. Takes ownership of the descriptor. `family` is that of the listening socket.
  static AdminConnection* start(AdminServices& services, int fd, int family);

  /// The request in progress.
  const AdminRequest& request() const { return request_; }
  /// Responds to the request for which the server has waited for figures.
  void respond();
  /// Lets the request in progress end, or the first one if there was none, and accepts no more: a client that has just
  /// connected would not try again.
  void drain();
  /// Ends the connection now.
  void end() { reset(); }
  /// Since when it has had no complete request; UINT64_MAX while it has one. For the choice of the connection that
  /// makes room for another one.
  uint64_t waits_since_ms() const;
  /// Whether HTTP has not begun yet, as the client has not proven by TLS who it is.
  bool shaking_hands() const { return !has_codec(); }
  /// False if it began before a reload that turned TLS on, or changed which certificates clients must have. It gets no
  /// more responses then.
  bool follows_rules() const;

  bool evicted = false;  ///< The server has ended it to make room.

 private:
  enum class Exchange : uint8_t {
    kNone,
    kReading,     // The request is not complete.
    kWaiting,     // For the figures of the workers, or for work_.
    kResponding,  // The response is queued, or is being sent.
  };

  AdminConnection(AdminServices& services, int family);
  ~AdminConnection() override;

  // HttpCodec::Acceptor
  StreamReceiver& on_stream(HttpStream& stream) override;
  // StreamReceiver
  void on_head(HttpStream& stream, Head&& head, bool end) override;
  void on_body(HttpStream& stream, Buffer&& body, bool end) override;
  void on_trailers(HttpStream& stream, Fields&& trailers) override;
  void on_reset(HttpStream& stream, ResetReason reason) override;
  void on_drained(HttpStream& stream) override;
  // HttpConnection
  void on_codec_done() override;
  void on_pumped() override;
  void on_flushed(size_t) override {}
  void on_timer() override;
  void on_gone() override;
  size_t send_mark() const override;
  // Transport::Owner
  void on_secured(Transport& transport, const Agreement& agreement) override;
  void on_insecure(Transport& transport, std::string_view error) override;
  void on_record_error(Transport& transport, std::string_view error) override;

  void shake_hands();
  void begin_http();
  void tls_failed(std::string_view error);
  void log_tls(std::string_view error) const;
  void handshake_timeout();
  void request_complete();
  void send(AdminResponse response);
  bool client_left() const;
  void poll_work();
  void refuse(uint16_t status, std::string_view why);
  void send_more();
  void end_exchange();
  void set_timer();

  AdminServices& admin_;
  const int family_;
  HttpStream* stream_ = nullptr;  // Set while a request is in progress.
  Exchange exchange_ = Exchange::kNone;
  AdminRequest request_;
  std::unique_ptr<AdminWork> work_;  // Set while the response takes its time.
  std::string body_;                 // Of the response.
  size_t sent_ = 0;                  // Bytes of it that are queued in the stream.
  bool had_request_ = false;
  bool drains_ = false;           // It is to drain as soon as it speaks HTTP.
  std::string tls_rules_;         // Of the settings with which its handshake began; empty without TLS.
  std::string certificate_name_;  // The first name in the client's certificate, for the log; empty without one.
  uint64_t idle_since_ms_;        // The end of the last request, or of the handshake.
  uint64_t began_ms_ = 0;         // When the first byte of the present request came; 0: none has.
};

}  // namespace sluice
