#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "net/timer_wheel.h"
#include "proxy/http/message/stream.h"
#include "proxy/http/proxy/movable_stream.h"
#include "proxy/listener/worker_upstream.h"
#include "proxy/transport/transport.h"

namespace sluice {

class HttpSession;
class HttpWorker;

/// A tunnel through a stream of HTTP/2 that came from another process: the stream, and the endpoint's connection
/// without HTTP. It owns itself and destroys itself when both have ended.
class StreamTunnel final : public StreamReceiver, private MovableStream, private Transport::Owner {
 public:
  /// Becomes the receiver of the stream. `upstream` has the endpoint in `slot`. Next: read_state().
  StreamTunnel(HttpSession& session, HttpStream& client, std::shared_ptr<WorkerUpstream> upstream, uint32_t slot);
  /// Takes ownership of the descriptor. False if the state is malformed: call abandon() then, else start().
  bool read_state(int fd, StateReader& in);
  void start();
  /// Ends it without another use of the stream.
  void abandon();

 private:
  ~StreamTunnel();

  // StreamReceiver
  void on_head(HttpStream&, Head&&, bool) override {}
  void on_body(HttpStream& stream, Buffer&& body, bool end) override;
  void on_trailers(HttpStream& stream, Fields&& trailers) override;
  void on_reset(HttpStream& stream, ResetReason reason) override;
  void on_drained(HttpStream& stream) override;
  Destination destination() const override;
  MovableStream* movable_stream() override { return this; }
  // MovableStream
  bool can_move() const override;
  HttpSession* client_session() override { return session_; }
  UpstreamConnection* shared_connection() override { return nullptr; }
  ForwardingState forwarding_state() const override;
  void begin_moving() override;
  void stay() override;
  Transport& endpoint_transport() override { return endpoint_; }
  MovingSession::Endpoint endpoint_names() const override;
  void depart() override;
  // Transport::Owner
  void on_connected(Transport&, int) override {}
  void on_secured(Transport&, const Agreement&) override {}
  void on_insecure(Transport&, std::string_view) override {}
  void on_data(Transport& transport, Buffer&& data) override;
  void on_part(Transport& transport) override;
  void on_end(Transport& transport, bool truncated) override;
  void on_sent(Transport& transport) override;
  void on_error(Transport& transport, int error) override;
  void on_record_error(Transport& transport, std::string_view error) override;
  void on_closed(Transport& transport) override;
  void on_detached(Transport& transport) override;
  size_t receive_credit(Transport& transport) override;

  size_t high_mark() const;
  EndpointCounters& counters() { return upstream_->counters_of(slot_); }
  uint64_t now_ms() const;
  void note_activity();
  void arm_timer(uint64_t due_ms);
  void on_timer();
  void read_client();
  void endpoint_failed();
  void end_client(ResetReason reason);
  void release_client();
  void maybe_finished();
  void leave_endpoint();
  void maybe_destroy();

  HttpWorker& http_;
  HttpSession* session_;  // Null with client_.
  HttpStream* client_;    // Null once released.
  const std::shared_ptr<WorkerUpstream> upstream_;
  const uint32_t slot_;
  Transport endpoint_;
  Timer timer_;
  uint64_t started_ms_;
  uint64_t active_ms_;
  bool client_ended_ = false;    // Its end of stream was passed on.
  bool endpoint_ended_ = false;  // The same.
  bool failed_ = false;          // The endpoint's connection has failed; the client gets what arrived before.
  bool holds_endpoint_ = true;
  bool quiet_ = false;  // The connection was checked since the last activity.
  bool moving_ = false;
  bool destroyed_ = false;
};

}  // namespace sluice
