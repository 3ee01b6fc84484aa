#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "proxy/common/local_ref.h"
#include "proxy/http/h2/idle_connection.h"
#include "proxy/http/message/client_ip.h"
#include "proxy/http/message/codec.h"
#include "proxy/http/proxy/http_connection.h"
#include "proxy/listener/connection_setup.h"
#include "proxy/listener/moving_session.h"
#include "proxy/listener/session.h"
#include "sluice/buffer.h"
#include "sluice/chunk_pointer.h"

namespace sluice {

class ClientAcceptor;
class Http2Codec;
class MovableStream;
class MovingGroup;
struct ResumingGroup;
struct StreamPlaces;
class StateReader;
class StateWriter;
struct HttpCodecSettings;
struct HttpListener;

/// A client's connection to an HTTP listener. Each of its requests is an exchange of its own.
///
/// States: accepted -> ConnectionSetup -> [HTTP version, by ALPN or by the first bytes] -> requests -> closing. It
/// destroys itself when it has closed.
class HttpSession final : public Session,
                          public HttpConnection,
                          public HttpCodec::Acceptor,
                          public ConnectionSetup::Owner {
 public:
  /// Starts the session of an accepted connection that its limits have admitted. Takes ownership of the descriptor.
  /// `family` is that of the listening socket.
  static void start(ClientAcceptor& acceptor, HttpListener& listener, HttpServices& worker, int fd, int family);

  /// Makes the session that `from` continues with, and adds it there. Next: start() or abandon(). `stays`: it does not
  /// move out again. Returns false if the state is malformed.
  [[nodiscard]] static bool resume(ClientAcceptor& acceptor, HttpListener& listener, HttpServices& worker,
                                   ResumingGroup& from, bool stays);

  SessionKind kind() const override;
  bool shut_down() override;
  void drain() override;
  bool move_out() override;
  StayReason stay_reason() const override;
  bool review_memory() override;
  ConnectionFacts facts() const override;
  void add_details(ConnectionDetails& details) const override;
  PeerAddress peer() const override;
  uint64_t transferred_bytes() const override;
  bool close_for_memory() override;

  /// Continues as a session of `to`, an acceptor whose configuration replaces that of the present one. During setup,
  /// the present one still decides how the connection begins, so nothing changes.
  void move_to(ClientAcceptor& to, HttpListener& listener);
  HttpListener& listener() { return *listener_; }

  // Called by its streams while it moves to another process:
  /// A tunnel's connection is detached.
  void continue_moving();
  /// Continues here, with its group, if it was about to move.
  void stay();

  // Called by its MovingGroup (http_session_move.cc).
  /// Whether it has no request, and nothing of one, but streams that can move with it.
  bool can_move() const;
  bool moving() const { return moving_ != nullptr; }
  /// Where it goes; null if sessions do not leave for another process.
  Departures* departures() const;
  /// Its open streams, if all of them can move.
  std::vector<MovableStream*> movable_streams() const;
  void begin_moving(MovingGroup& group);
  /// Starts to detach its connection, and those that its streams have for themselves.
  void detach();
  bool detached() const;
  /// Passes on what waits between its connection and those of its streams. What the peer's windows of HTTP/2 hold back
  /// moves with the codec. False: something else still waits.
  bool pass_all_on();
  bool has_output() const { return codec_ && codec_->has_output(); }
  /// Bytes that wait in its connections.
  size_t moving_bytes() const;
  void continue_here();
  /// Lets the requests of HTTP/2 that are in progress end before it reads new ones, for a moment, so that it can move.
  void hold_requests();
  /// Whether it is a tunnel of HTTP/1.1, which continues as an L4Session.
  bool is_tunnel() const;
  /// Serialize it. False: that is impossible, and abandon() must follow.
  bool write_tunnel(StateWriter& out, MovingSession& moving);
  bool write_state(StateWriter& out, MovingSession& moving, const StreamPlaces& places);
  /// Takes the descriptors away, and leaves.
  void depart(MovingSession& moving);
  /// Whether it is a tunnel of HTTP/1.1 on both sides that has nothing left to do but to forward bytes and note its
  /// end.
  bool can_settle() const;
  /// Continues as a SettledTunnel. Preconditions: can_settle(), all its connections are detached, and nothing waits.
  void settle();
  /// It can continue nowhere.
  void abandon();
  /// The last steps of resume(): continues with the codec, if it has one, and then with the bytes that had arrived.
  void start(CodecPointer codec);
  void read_late(Buffer&& late);

  const ClientIp& client_ip() const { return client_ip_; }
  /// Of the same peer; 0: unknown.
  uint16_t client_port() const { return client_port_; }
  /// The address that the client has connected to, by the kernel.
  PeerAddress local_address() const { return PeerAddress::own_of(transport_.socket().fd()); }
  const Agreement* agreed() const { return agreed_.get(); }
  bool http2() const { return version_ == Version::kHttp2; }
  bool shutting_down() const { return shutting_down_; }
  bool closed_for_memory() const { return closed_for_memory_; }
  /// The number of open streams, at least 1.
  uint32_t streams() const { return codec_ && codec_->streams() > 0 ? codec_->streams() : 1; }
  bool has_queued() const { return transport_.queued() > 0; }
  /// When the client last took response data or made room for it. Replies to its PINGs do not count.
  uint64_t last_progress_ms() const;
  /// An exchange reports that response body is being sent.
  void note_progress();
  /// Logs that one of its requests breaks a rule, if the log has room for that.
  void log_broken(const BrokenMessage& message);
  /// Gives up output that is not sent yet: when the codec is done, the connection is reset.
  void abandon_output() { abandoned_ = true; }
  /// Like Worker::should_shed_load, for one of its exchanges. Shortly after one exchange was shed, the others may be
  /// shed too.
  bool should_shed_load();

 private:
  enum class Version : uint8_t { kUnknown, kHttp1, kHttp2 };

  /// State that is needed only until the HTTP version is known.
  struct Beginning {
    ChunkPointer<ConnectionSetup> setup;  // Null once setup is done.
    Buffer first;                         // Bytes received after setup.
  };

  /// While it leaves for another process.
  struct Moving {
    MovingGroup* group;
    Buffer late;  // Received since it began to leave.
  };

  HttpSession(ClientAcceptor& acceptor, HttpListener& listener, HttpServices& worker);
  ~HttpSession() override;

  // ConnectionSetup::Owner
  void on_client_ready(Buffer&& first) override;
  void on_client_refused(Refusal reason) override;
  void on_client_failed(SessionEnd end) override;
  void on_client_closed() override { on_gone(); }
  // HttpCodec::Acceptor
  StreamReceiver& on_stream(HttpStream& stream) override;
  bool admits(size_t held_bytes, size_t bytes) override;
  bool may_read_pipelined() override;
  void on_refused(const BrokenMessage& message) override;
  void on_failed(const BrokenMessage& message) override;
  // HttpConnection
  void on_codec_done() override;
  void on_pumped() override;
  void on_flushed(size_t bytes) override;
  void on_timer() override;
  void on_gone() override;
  bool may_read() override;
  size_t send_mark() const override;
  // Transport::Owner
  void on_secured(Transport&, const Agreement&) override {}
  void on_insecure(Transport&, std::string_view) override {}
  void on_data(Transport& transport, Buffer&& data) override;
  void on_sent(Transport& transport) override;
  void on_part(Transport& transport) override;
  void on_end(Transport& transport, bool truncated) override;
  void on_error(Transport& transport, int error) override;
  void on_record_error(Transport& transport, std::string_view error) override;
  void on_detached(Transport& transport) override;
  size_t receive_credit(Transport& transport) override;

  /// Moves to the successor of its acceptor, if there is one.
  void follow_configuration();
  // http_session_move.cc
  void begin_settling();
  void release_requests();
  void write_connection(StateWriter& out);
  bool read_state(ResumingGroup& from);
  bool read_streams(Http2Codec* codec, ResumingGroup& from);

  void inspect_first_bytes();
  void begin(Version version, Buffer&& first);
  void make_http1();
  bool client_has_left() const;
  bool awaits_first_request() const;
  bool is_trickle();
  void park_codec();
  /// Makes the codec of an idle HTTP/2 connection, if it is packed.
  void unpack_codec();
  // How many bytes it may hold now (HttpCodec::held_bytes).
  size_t held_limit() const;
  // While memory is short: whether it must give memory back, down to its share.
  bool must_give_back() const;
  void count_end(SessionEnd end);
  /// Counts and logs a request that the codec refused; `status` is 0 if it had no response.
  void log_refused(const BrokenMessage& message, std::string_view reason);
  void log_failure_of_codec();
  void head_timed_out();
  uint64_t idle_timeout_ms() const;
  /// When it began to wait for a request, the end of a head, or the client to take output.
  uint64_t waits_since_ms() const { return since(waits_since32_ms_); }
  void begin_to_wait();
  /// The time that is `modulo` modulo 2^32, and not in the future.
  uint64_t since(uint32_t modulo) const;
  /// While memory is short: ends what has no request and has been idle for the reduced timeout.
  bool end_if_idle();

  ClientAcceptor* acceptor_;
  HttpListener* listener_;
  LocalRef<HttpCodecSettings> codec_settings_;  // Of the codec; null before there is one.
  ChunkPointer<Beginning> beginning_;
  ChunkPointer<Moving> moving_;
  std::unique_ptr<Agreement> agreed_;  // If requests need it.
  SourceLimit::Place source_place_;    // Set if the listener limits connections per source.
  ClientIp client_ip_;                 // Has no alignment, so small members follow it.
  Version version_ = Version::kUnknown;
  bool draining_ = false;
  bool quiet_ = false;
  bool end_counted_ = false;
  bool mid_head_ : 1 = false;
  bool busy_ : 1 = false;            // Streams were open at the last check.
  bool body_in_flight_ : 1 = false;  // The transport holds response body.
  bool shutting_down_ : 1 = false;
  bool abandoned_ : 1 = false;
  bool closed_for_memory_ : 1 = false;
  bool stays_ : 1 = false;          // No other process has taken it.
  bool broken_logged_ : 1 = false;  // The log has the rule that ends the connection.
  uint8_t held_at_ = 0;             // The second of the last hold_requests(), modulo; 0: none.
  uint16_t client_port_ = 0;
  // HTTP/1.1: the requests of a codec that was freed while idle. HTTP/2: the body bytes that had been sent at
  // last_body_ms_.
  uint32_t version_count_ = 0;
  IdleHttp2Connection idle_http2_;  // Of an HTTP/2 codec that was freed while idle.
  uint32_t shed_load_ms_ = 0;
  uint32_t paused_ms_ = 0;     // When it began to hold more than its share of memory; 0: it does not.
  uint32_t last_body_ms_;      // When response body was last sent, or the last of it was taken; modulo 2^32.
  uint32_t waits_since32_ms_;  // See waits_since_ms(); modulo 2^32.
  uint64_t started_ms_;
};
// An idle connection of HTTP/1.1 is little more than this: with glibc's malloc 448 bytes.
static_assert(sizeof(HttpSession) <= 432);

}  // namespace sluice
