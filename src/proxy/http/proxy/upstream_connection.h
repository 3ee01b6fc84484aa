#pragma once

#include <cstdint>

#include "proxy/http/message/stream.h"
#include "proxy/http/proxy/http_connection.h"
#include "proxy/listener/moving_session.h"
#include "proxy/upstream/endpoint.h"

namespace sluice {

class MovableStream;
class MovingGroup;
class UpstreamCaller;
class UpstreamPool;

/// A connection to an endpoint, on which the proxy is the HTTP client. It destroys itself when it has closed.
class UpstreamConnection final : public HttpConnection {
 public:
  /// `number`: the upstream numbers its connections in the order of their creation. `place`: in the list of all its
  /// connections. The upstream outlives the connection.
  UpstreamConnection(UpstreamPool& upstream, uint32_t endpoint, uint64_t number, uint32_t place);
  ~UpstreamConnection() override;

  /// Schedules the connect for the end of the turn, or a later one: see on_woken().
  void connect();
  UpstreamPool& pool() { return upstream_; }
  bool ready() const { return state_ == State::kReady; }
  uint32_t endpoint() const { return endpoint_; }
  uint64_t number() const { return number_; }
  /// Whether an earlier caller has used it.
  bool used() const { return requests_ > 1; }
  bool accepts_protocols() const;

  /// Whether the socket has no unreported event. On an idle connection, such an event is the endpoint's end of stream.
  /// Makes a system call.
  bool looks_alive() const;
  /// Opens the caller's stream on this connection. Returns false if there is no room for it, or if the connection is
  /// about to end.
  bool attach(UpstreamCaller& caller);
  /// The caller has released its stream.
  void detach();

  /// Callers that wait until the connection is ready.
  void add_waiting(UpstreamCaller& caller);
  void remove_waiting(UpstreamCaller& caller);
  /// `by` takes the place of `caller` in the queue.
  void replace_waiting(UpstreamCaller& caller, UpstreamCaller& by);
  uint32_t waiting() const { return waiting_count_; }

  // To continue the connection in another process (upstream_connection_move.cc).
  using HttpConnection::empty_codec;
  Transport& transport() { return transport_; }
  MovingSession::Endpoint endpoint_names() const;
  StreamReceiver::Destination destination() const;
  // Called by a tunnel that moves and has this connection alone: see MovableStream.
  void begin_moving();
  /// Continues, if it was about to move.
  void stay();
  /// The tunnel has left with the descriptor.
  void leave_with_tunnel() { leave(); }
  // Called by a MovingGroup, which moves it with all of its streams.
  /// Whether it can move if its streams can.
  bool can_move() const;
  /// Takes no more requests, so that those that are under way can all move. Each of its groups that cannot move now
  /// waits for a moment before the next attempt.
  void stop_sharing();
  bool may_try_to_move() const;
  void begin_moving(MovingGroup& group);
  void continue_here();
  /// Bytes that wait in the transport, and those that have arrived since it began to move.
  size_t moving_bytes() const { return transport_.queued() + late_.size(); }
  bool write_state(StateWriter& out);
  /// Takes the descriptor away. The connection may only be used by the streams that leave it.
  int take();
  /// It can continue nowhere.
  void abandon();
  /// Reads what write_state() has written. Takes ownership of the descriptor. The codec's streams need receivers before
  /// it goes on with start() and read_late(). Returns false if the state is malformed; abandon() must follow then.
  [[nodiscard]] bool read_state(int fd, StateReader& in, CodecPointer& codec, Buffer& late);
  void start(CodecPointer codec);
  void read_late(Buffer&& late);
  /// A stream that came with it has a receiver, which calls detach() in the end.
  void add_user();

  /// Ends the connection as soon as it has no request in progress.
  void drain();
  /// Like drain(), but serves the waiting callers first. Called when the endpoint is gone.
  void retire();
  /// Ends the connection now.
  void shut_down() {
    stop_moving();
    reset();
  }
  /// Reports that a request sent at this time received no response. If the connection is shared (HTTP/2) and nothing
  /// has arrived since then, the connection itself may be broken, so it gets no more requests.
  void suspect(uint64_t sent_ms);

 private:
  enum class State : uint8_t { kConnecting, kReady, kGone };

  // HttpConnection
  void on_codec_done() override;
  void on_pumped() override;
  void on_woken() override;
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
  void on_detached(Transport& transport) override;

  bool opened() const { return transport_.busy(); }
  void open();
  void begin();
  void become_ready();
  void connect_failed(ConnectError error, std::string_view detail = {});
  void leave_lists();
  void become_idle();
  bool has_unsent() const;
  void log_failure(std::string_view error);
  MovableStream* moving_tunnel() const;
  void stop_moving();

  UpstreamPool& upstream_;
  UpstreamCaller* first_waiting_ = nullptr;
  uint64_t number_;
  uint64_t idle_since_ms_ = 0;  // While connecting: when that began.
  uint64_t last_received_ms_ = 0;
  uint32_t endpoint_;
  uint16_t generation_ = 0;  // Generation of the TLS context.
  uint32_t users_ = 0;
  uint32_t requests_ = 0;
  uint32_t waiting_count_ = 0;
  uint32_t place_;  // In UpstreamPool::all_.
  State state_ = State::kConnecting;
  bool listed_ = false;  // In Endpoint::idle or ::shared.
  bool draining_ = false;
  bool quiet_ = false;
  bool moving_ = false;           // A tunnel leaves with it once it is detached.
  MovingGroup* group_ = nullptr;  // It moves with other connections.
  Buffer late_;                   // Received since it began to move with them.
  uint64_t next_move_ms_ = 0;     // When to try again.
};

}  // namespace sluice
