#pragma once

#include <cstdint>

#include "proxy/http/proxy/http_connection.h"
#include "proxy/upstream/endpoint.h"

namespace sluice {

class HttpUpstream;
class UpstreamRequest;

/// A connection to an endpoint, as a client of HTTP. It destroys itself when it has closed.
class UpstreamConnection final : public HttpConnection {
 public:
  /// The upstream numbers its connections as it makes them.
  UpstreamConnection(HttpUpstream& upstream, uint32_t endpoint, uint64_t number);
  ~UpstreamConnection() override;

  /// False when no socket is to be had.
  bool connect();
  bool ready() const { return state_ == State::kReady; }
  uint32_t endpoint() const { return endpoint_; }
  uint64_t number() const { return number_; }
  /// Whether a caller has used it before.
  bool used() const { return requests_ > 1; }
  bool takes_protocols() const;

  /// Whether nothing has come of the endpoint that its completion has not told yet: of an idle connection that is its
  /// end. A system call.
  bool looks_alive() const;
  /// Begins the caller's stream here. False if there is no room for it, or the connection is about to end.
  bool attach(UpstreamRequest& caller);
  /// The caller has released its stream.
  void detach();

  /// Callers that wait until it is ready.
  void add_waiting(UpstreamRequest& caller);
  void remove_waiting(UpstreamRequest& caller);
  /// `by` waits in its place.
  void replace_waiting(UpstreamRequest& caller, UpstreamRequest& by);
  uint32_t waiting() const { return waiting_count_; }

  /// Ends it as soon as nothing is under way;
  void drain();
  /// the same, but what waits for it is served first: its endpoint is gone.
  void retire();
  /// Ends it now.
  void shut_down() { reset(); }
  /// A request that was sent at this time was not answered. Where many share the connection, and nothing else has come
  /// since, it is perhaps the connection: it gets no more.
  void suspect(uint64_t asked_ms);

 private:
  enum class State : uint8_t { kConnecting, kReady, kGone };

  // HttpConnection
  void on_codec_done() override;
  void on_pumped() override;
  void on_flushed(size_t bytes) override;
  void on_timer() override;
  void on_gone() override;
  size_t send_mark() const override;
  // Transport::Owner
  void on_connected(Transport& transport, int error) override;
  void on_secured(Transport& transport, const Agreement& agreement) override;
  void on_insecure(Transport& transport, std::string_view error) override;
  void on_session(Transport& transport, bssl::UniquePtr<SSL_SESSION> session) override;
  void on_data(Transport& transport, Buffer&& data) override;
  void on_sent(Transport& transport) override;
  void on_part(Transport& transport) override;
  void on_end(Transport& transport, bool truncated) override;
  void on_record_error(Transport& transport, std::string_view error) override;
  void on_error(Transport& transport, int error) override;

  void begin();
  void become_ready();
  void connect_failed(ConnectError error);
  void leave_lists();
  void become_idle();
  bool has_unsent() const;
  const char* security() const;
  void log_failure(std::string_view what, std::string_view error);

  HttpUpstream& upstream_;
  UpstreamRequest* first_waiting_ = nullptr;
  uint64_t number_;
  uint64_t idle_since_ms_ = 0;
  uint64_t last_received_ms_ = 0;
  uint32_t endpoint_;
  uint16_t generation_ = 0;  // Of the TLS context.
  uint32_t users_ = 0;
  uint32_t requests_ = 0;
  uint32_t waiting_count_ = 0;
  State state_ = State::kConnecting;
  bool listed_ = false;  // In Endpoint::idle or ::shared.
  bool draining_ = false;
  bool quiet_ = false;
};

}  // namespace sluice
