#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>

#include "net/timer_wheel.h"
#include "proxy/access_log/listener_log.h"
#include "proxy/common/connection_limits.h"
#include "proxy/common/peer_address.h"
#include "proxy/l4/tcp_bandwidth.h"
#include "proxy/listener/client_acceptor.h"
#include "proxy/listener/connection_setup.h"
#include "proxy/listener/session.h"
#include "proxy/metrics/l4_counters.h"
#include "proxy/router/tcp_router.h"
#include "proxy/transport/transport.h"
#include "proxy/upstream/balancer.h"
#include "sluice/buffer.h"
#include "sluice/chunk_pointer.h"

namespace sluice {

struct ClientHello;
class ConnectionLog;
class FlowPacer;
struct FlowPacers;
class L4SessionWithExtras;
class StateReader;

/// What a listener wants of its sessions beyond forwarding. Each is null, or outlives the sessions.
struct L4Extras {
  ListenerLog* log = nullptr;
  const TcpBandwidth* bandwidth = nullptr;
};

/// One proxied TCP connection: the client, the chosen endpoint, and the bytes between them.
///
/// States: accepted -> ConnectionSetup -> [inspecting the ClientHello] -> connecting, perhaps to several endpoints in
/// turn, with a handshake if the upstream is configured for one -> forwarding -> [draining, if one side has failed] ->
/// closing.
///
/// While it forwards, the session holds no buffer of its own: data from one transport goes straight to the other. Only
/// the earlier stages need more (`Setup`), which is freed before forwarding. The session owns itself and destroys
/// itself when both transports have closed.
///
/// While it forwards, it can move to another process: l4_session_move.cc.
class L4Session : public Session, private Transport::Owner {
 public:
  /// Starts the session of an accepted connection that its limits have admitted. Takes ownership of the descriptor.
  /// `family` is that of the listening socket.
  static void start(ClientAcceptor& acceptor, const L4Extras& extras, int fd, int family);

  /// Continues the session that move_out() has written. Takes ownership of the descriptors. False if the state is
  /// malformed, or its endpoint is not one of the configuration; the connections are reset then. `stays`: it does not
  /// move out again. Its bandwidth is not limited.
  static bool resume(ClientAcceptor& acceptor, ListenerLog* log, MovingSession& moving, bool stays);

  SessionKind kind() const override { return SessionKind::kTcp; }
  bool shut_down() override;
  bool move_out() override;
  StayReason stay_reason() const override;
  ConnectionFacts facts() const override;
  void add_details(ConnectionDetails& details) const override;
  PeerAddress peer() const override;
  bool review_memory() override;
  uint64_t transferred_bytes() const override;
  bool close_for_memory() override;

 protected:
  enum class Kind : uint8_t {
    kPlain,
    kWithExtras,  ///< An L4SessionWithExtras.
    kTunnel,      ///< A tunnel of HTTP, to which the functions below belong.
  };
  /// Two connections with which a session begins, and what is known of them.
  struct Begun {
    Transport& client;
    Transport& upstream;  ///< Both are detached, and have nothing queued.
    uint32_t upstream_index;
    uint32_t endpoint_index;
    uint64_t started_ms;
    uint64_t active_ms;
    SourceLimit::Place source_place;
  };

  explicit L4Session(ClientAcceptor& acceptor, Kind kind = Kind::kPlain);
  virtual ~L4Session();

  /// Takes the connections over, and forwards from now on. May be called once, as the first of all functions.
  void begin_with(Begun&& from);
  const Transport& client() const { return client_; }
  UpstreamState& upstream_state() const;
  EndpointCounters& endpoint_counters();
  WorkerUpstream& worker_upstream() const { return acceptor_.upstream(upstream_index_); }
  uint32_t endpoint_index() const { return endpoint_index_; }
  ClientAcceptor& acceptor() const { return acceptor_; }

  /// `bytes` of data have been passed on; `waiting` bytes are queued in the proxy now.
  virtual void note_passed(bool /*from_client*/, size_t /*bytes*/, size_t /*waiting*/) {}
  /// Whether the client has taken nothing of its queued output for too long. Called about once a second.
  virtual bool client_is_stuck(uint64_t /*now_ms*/) { return false; }
  /// The session ends, which is called once. Returns what the listener counts.
  virtual SessionEnd note_end(SessionEnd end) { return end; }

 private:
  /// How long to wait, after an alert, for the peer to end its side too.
  static constexpr uint64_t kAlertMs = 1000;

  //   State        comes from                      what it has
  //   kSetup       the start                       setup_
  //   kHello       kSetup                          setup_
  //   kConnecting  kSetup, kHello, kRetrying       setup_, and the endpoint of an attempt
  //   kRetrying    kConnecting                     setup_
  //   kForwarding  kConnecting                     an endpoint
  //   kMoving      kForwarding                     an endpoint; both transports are detaching
  //   kDraining    kForwarding, or kSetup (alert)  drain_, client_failed_, end_
  //   kClosing     any
  enum class State : uint8_t {
    kSetup,
    kHello,
    kConnecting,
    kRetrying,  ///< The upstream transport is closing so that the next endpoint can be tried.
    kForwarding,
    kMoving,    ///< It leaves for another process once nothing is in flight.
    kDraining,  ///< One side has failed. Queued output is still sent, then both sides are closed.
    kClosing,
  };
  /// What remains to be done for the failed side while draining. The other side always receives the data that arrived
  /// before the failure, then a reset. kQueue and kAlert become kRest once the failed side is gone.
  enum class Drain : uint8_t {
    kRest,   ///< The connection is gone. Data that it had sent is still read.
    kQueue,  ///< Its input may be truncated. It sends nothing more, and receives the output queued for it.
    kAlert,  ///< It receives an alert. Its input is dropped, so that no reset overtakes the alert (RFC 8446, 6.2).
  };
  enum class ClientEnd : uint8_t { kNone, kOrderly, kTruncated };

  /// State that is needed only until forwarding starts.
  struct Setup final : ConnectionSetup::Owner {
    explicit Setup(L4Session& s) : session(s), client(s.acceptor_, s.client_, *this) {}
    void on_client_ready(Buffer&& first) override { session.client_ready(std::move(first)); }
    void on_client_refused(Refusal reason) override { session.client_refused(reason); }
    void on_client_failed(SessionEnd end) override { session.client_failed(end); }
    void on_client_closed() override { session.on_closed(session.client_); }

    L4Session& session;
    ConnectionSetup client;
    Buffer held;        ///< Received from the client and not yet passed on.
    size_t wanted = 0;  ///< Parsing is not retried with fewer held bytes than this.
    TriedEndpoints tried;
    uint32_t attempts = 0;
    uint64_t attempted_ms = 0;                ///< When the last attempt began.
    ClientEnd client_end = ClientEnd::kNone;  ///< The client's end of stream, not yet passed on.
  };

  static L4Session* make(ClientAcceptor& acceptor, const L4Extras& extras);
  L4SessionWithExtras* with_extras();
  void client_ready(Buffer&& first);
  void client_refused(Refusal reason);
  void client_failed(SessionEnd end);
  // Transport::Owner
  void on_connected(Transport& upstream, int error) override;
  void on_secured(Transport& upstream, const Agreement& agreement) override;
  void on_insecure(Transport& upstream, std::string_view error) override;
  void on_session(Transport& upstream, bssl::UniquePtr<SSL_SESSION> session) override;
  void on_data(Transport& from, Buffer&& data) override;
  void on_part(Transport& from) override;
  void on_end(Transport& from, bool truncated) override;
  void on_sent(Transport& to) override;
  void on_error(Transport& transport, int error) override;
  void on_record_error(Transport& from, std::string_view error) override;
  void on_closed(Transport& transport) override;
  void on_detached(Transport& transport) override;
  size_t receive_credit(Transport& from) override;

  void on_timer();
  void arm_timer(uint64_t due_ms);
  void wait_for_more();
  void read_hello();
  void route(const ClientHello* hello);
  void connect_next();
  bool open_upstream();
  void begin_upstream_handshake();
  void connected();
  void connect_failed(ConnectError error, std::string_view detail = {});
  void leave_endpoint();
  void queue_proxy_header(Buffer& to);
  void forward();
  void continue_forwarding();
  void depart();
  bool read_state(MovingSession& moving);
  bool read_log(StateReader& in, int client_fd);
  void stay();
  void use_endpoint();
  void pass_on(Transport& from, Buffer&& data);
  void side_ended(Transport& from, bool truncated);
  void note_activity();
  void check_quiet();
  /// What the access log needs to know; null if there is no log.
  ConnectionLog* log();
  const ConnectionLog* log() const { return const_cast<L4Session*>(this)->log(); }
  void note_client();
  void note_route(const ClientHello* hello, const std::optional<TcpTarget>& target);
  void log_end(std::string_view reason);
  // Bytes have been passed on. Whether the next ones have to wait for their turn.
  bool take_note(Transport& from, size_t bytes);
  // What limits the bandwidth; null if nothing does.
  FlowPacers* pacers();
  bool paced() const { return const_cast<L4Session*>(this)->pacers() != nullptr; }
  FlowPacer* pacer_of(const Transport& from);
  bool waits_for_turn();
  void make_pacers(uint32_t route);
  void read_on(Transport& from);
  void turn_of(bool client);
  void log_failure(const Transport& with, std::string_view error) const;
  void finish(SessionEnd end);
  void begin_draining(Transport& failed, SessionEnd end, Drain how);
  void drain_rest();
  void continue_draining();
  void failed_while_draining(Transport& transport);
  void on_drain_timer();
  size_t high_mark() const;
  void maybe_finished();

  bool is_client(const Transport& transport) const { return &transport == &client_; }
  Transport& failed_side() { return client_failed_ ? client_ : upstream_; }
  Transport& other(const Transport& transport) { return is_client(transport) ? upstream_ : client_; }
  bool has_queued() const { return client_.queued() > 0 || upstream_.queued() > 0; }
  PeerAddress client_source() const;
  ListenerCounters& counters();
  bool is_tunnel() const { return kind_ == Kind::kTunnel; }
  void count_end(SessionEnd end);
  uint64_t idle_timeout_ms() const;

  // Ordered to leave no padding: transports are aligned to 16 bytes, and their last 8 bytes are free.
  ClientAcceptor& acceptor_;
  SourceLimit::Place source_place_;  // Set if the listener limits connections per source.
  [[no_unique_address]] Transport client_;
  uint64_t started_ms_;
  [[no_unique_address]] Transport upstream_;
  Timer timer_;
  ChunkPointer<Setup> setup_;
  uint64_t last_active_ms_;
  uint32_t acknowledged_ = 0;  // Bytes that both peers had acknowledged at the last check, modulo 2^32.
  uint32_t upstream_index_ = 0;
  uint32_t endpoint_index_ = 0;
  uint16_t tls_generation_ = 0;                 // Of the TLS context of the endpoint's handshake.
  SessionEnd end_ : 5 = SessionEnd::kFinished;  // The end to count after draining.
  Drain drain_ : 2 = Drain::kRest;
  bool client_failed_ : 1 = false;  // While draining: whether the client failed rather than the upstream.
  State state_ : 3 = State::kSetup;
  bool endpoint_counted_ : 1 = false;
  bool quiet_ : 1 = false;  // check_quiet() has run since the last activity.
  bool stays_ : 1 = false;  // No other process has taken it.
  const Kind kind_ : 2;
};
// A proxy with very many connections consists mostly of these objects.
static_assert(sizeof(L4Session) <= 432);
static_assert(kSessionEndCount <= 32);  // end_

/// Makes L4Sessions.
class L4SessionFactory final : public SessionFactory {
 public:
  /// `access_log` is that of `listener.tcp` on this worker; not set: there is none. The limits that the listener names
  /// are in `limits`.
  L4SessionFactory(const config::Listener& listener, AccessLogTarget access_log, const WorkerRateLimits& limits)
      : bandwidth_(listener, limits) {
    const config::AccessLog* const config = listener.access_log();
    if (config && access_log.is_set()) log_.emplace(std::move(access_log), *config);
  }

  void start(ClientAcceptor& acceptor, int fd, int family) override {
    L4Session::start(acceptor, {.log = log(), .bandwidth = bandwidth_.empty() ? nullptr : &bandwidth_}, fd, family);
  }
  bool resume(ClientAcceptor& acceptor, MovingSession& session, FindAcceptor, bool stays) override {
    return L4Session::resume(acceptor, log(), session, stays);
  }
  void stop() override {
    if (log_) log_->stop();
  }
  bool idle() const override { return !log_ || log_->idle(); }

 private:
  ListenerLog* log() { return log_ ? &*log_ : nullptr; }

  std::optional<ListenerLog> log_;
  const TcpBandwidth bandwidth_;
};

}  // namespace sluice
