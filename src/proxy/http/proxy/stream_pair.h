#pragma once

#include <cstddef>
#include <cstdint>

#include "net/timer_wheel.h"
#include "proxy/http/message/stream.h"
#include "proxy/http/proxy/movable_stream.h"

namespace sluice {

class HttpSession;
class HttpWorker;
class UpstreamConnection;

/// An exchange that came from another process after its response had begun: a stream of the client's HTTP/2 connection
/// and one of an endpoint's. It passes bodies and trailers on. It owns itself and destroys itself when both streams are
/// released.
class StreamPair final : public StreamReceiver, private MovableStream {
 public:
  /// Becomes the receiver of both streams. Next: start() or abandon().
  StreamPair(HttpSession& session, HttpStream& client, UpstreamConnection& connection, HttpStream& upstream,
             const StreamPairState& state);
  void start();
  /// Ends it without another use of the streams.
  void abandon();

 private:
  ~StreamPair();

  // StreamReceiver
  void on_head(HttpStream&, Head&&, bool) override {}
  void on_body(HttpStream& stream, Buffer&& body, bool end) override;
  void on_trailers(HttpStream& stream, Fields&& trailers) override;
  void on_reset(HttpStream& stream, ResetReason reason) override;
  void on_broken(HttpStream& stream, const BrokenMessage& message) override;
  void on_drained(HttpStream& stream) override;
  Destination destination() const override;
  MovableStream* movable_stream() override { return this; }
  // MovableStream
  bool can_move() const override;
  HttpSession* client_session() override { return session_; }
  UpstreamConnection* shared_connection() override { return connection_; }
  StreamPairState pair_state() const override;
  void depart() override;
  Transport& endpoint_transport() override;
  MovingSession::Endpoint endpoint_names() const override;

  size_t high_mark() const;
  uint64_t now_ms() const;
  void note_activity();
  void regulate();
  bool awaits_request() const { return client_ && upstream_ && !request_ended_ && !client_paused_ && !tunnel_; }
  void on_timer();
  [[nodiscard]] bool is_overdue(uint64_t now) const;
  void fail();
  void settle();
  void release_client();
  void release_upstream();
  void leave_connection();
  void maybe_retire();

  HttpWorker& http_;
  HttpSession* session_;            // Null with client_.
  HttpStream* client_;              // Null once released.
  UpstreamConnection* connection_;  // Null with upstream_.
  HttpStream* upstream_;            // Null once released.
  Timer timer_;
  const uint64_t due_ms_;                        // Of the whole exchange; StreamPairState::kNever: none.
  const uint64_t idle_timeout_ms_;               // 0: none.
  uint64_t active_ms_;                           // Data last moved.
  uint64_t response_ms_;                         // The client last took response data.
  ResetReason reason_ = ResetReason::kInternal;  // Why the endpoint reset its stream.
  const bool tunnel_;
  bool request_ended_;
  bool response_ended_ = false;
  bool cut_ = false;  // The endpoint has failed; the client gets what arrived before.
  bool client_paused_ = true;
  bool upstream_paused_ = true;
  bool quiet_ = false;  // The timer is not armed for the next check.
  bool retired_ = false;
};

}  // namespace sluice
