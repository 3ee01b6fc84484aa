#pragma once

#include <cstdint>
#include <string_view>
#include <utility>

#include "buffer/buffer.h"
#include "net/timer_wheel.h"
#include "pool/chunk_pointer.h"
#include "proxy/common/connection_limits.h"
#include "proxy/common/peer_address.h"
#include "proxy/listener/client_acceptor.h"
#include "proxy/listener/connection_setup.h"
#include "proxy/listener/session.h"
#include "proxy/metrics/l4_counters.h"
#include "proxy/transport/transport.h"
#include "proxy/upstream/balancer.h"

namespace sluice {

struct ClientHello;

/// One proxied TCP connection: client, chosen endpoint, and the bytes between them.
///
/// accepted -> ConnectionSetup -> [a look at the ClientHello] -> connecting, perhaps to several endpoints, with a
/// handshake where they are to have one -> forwarding -> [draining, where one side has failed] -> closing. While it
/// forwards it holds no buffer of its own: what one transport gives goes straight to the other. Only the stages before
/// need more (`Setup`), which is gone by then. It destroys itself when both transports have closed.
class L4Session final : public Session, private Transport::Owner {
 public:
  /// Takes the descriptor of an accepted connection, which its limits have admitted.
  static void start(ClientAcceptor& acceptor, int fd);

  void shut_down() override;

 private:
  enum class State : uint8_t {
    kSetup,
    kHello,
    kConnecting,
    kForwarding,
    kDraining,  ///< One side has failed; what is under way still goes out, then both are closed.
    kClosing,
  };
  /// What is left to do for the side that has failed. The other side always gets what arrived before, then a reset.
  enum class Drain : uint8_t {
    kRest,   ///< The connection is gone; what it had sent is still read.
    kQueue,  ///< It may have been cut: it sends nothing more, and gets what is queued for it.
    kAlert,  ///< It gets an alert. What it sends is dropped, so that no reset overtakes the alert (RFC 8446, 6.2).
  };
  enum class ClientEnd : uint8_t { kNone, kSaid, kTruncated };

  /// What is needed only until bytes flow.
  struct Setup final : ConnectionSetup::Owner {
    explicit Setup(L4Session& s) : session(s), client(s.acceptor_, s.client_, *this) {}
    void on_client_ready(Buffer&& first) override { session.client_ready(std::move(first)); }
    void on_client_refused(Refusal reason) override { session.client_refused(reason); }
    void on_client_failed(SessionEnd end) override { session.client_failed(end); }
    void on_client_closed() override { session.on_closed(session.client_); }

    L4Session& session;
    ConnectionSetup client;
    Buffer held;        ///< From the client, not yet passed on.
    size_t wanted = 0;  ///< Parsing again is pointless before so many bytes are held.
    TriedEndpoints tried;
    uint32_t attempts = 0;
    ClientEnd client_end = ClientEnd::kNone;  ///< Not yet passed on either.
  };

  L4Session(ClientAcceptor& acceptor, int fd);
  ~L4Session();

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
  void connect_failed(ConnectError error);
  void leave_endpoint();
  void queue_proxy_header(Buffer& to);
  void forward();
  void pass_on(Transport& from, Buffer&& data);
  void side_ended(Transport& from, bool truncated);
  void note_activity();
  void look_after_quiet();
  void log_failure(const Transport& with, std::string_view error) const;
  void finish(SessionEnd end);
  void begin_draining(Transport& failed, SessionEnd end, Drain how);
  void go_on_draining();
  void failed_while_draining(Transport& transport);
  void on_drain_timer();
  size_t high_mark() const;
  void maybe_finished();

  bool is_client(const Transport& transport) const { return &transport == &client_; }
  Transport& failed_side() { return client_failed_ ? client_ : upstream_; }
  Transport& other(const Transport& transport) { return is_client(transport) ? upstream_ : client_; }
  bool has_queued() const { return client_.queued() > 0 || upstream_.queued() > 0; }
  PeerAddress client_source() const;
  UpstreamState& upstream_state() const;
  ListenerCounters& counters();
  EndpointCounters& endpoint_counters();

  // In an order that leaves no holes: transports begin at multiples of 16, and their last 8 bytes are free.
  ClientAcceptor& acceptor_;
  SourceLimit::Place source_place_;  // Where sources are limited.
  [[no_unique_address]] Transport client_;
  uint64_t started_ms_;
  [[no_unique_address]] Transport upstream_;
  Timer timer_;
  ChunkPointer<Setup> setup_;
  uint64_t last_active_ms_;
  uint32_t acknowledged_ = 0;  // By both peers, modulo 2^32, when the session was last looked after.
  uint32_t upstream_index_ = 0;
  uint32_t endpoint_index_ = 0;
  uint16_t tls_generation_ = 0;                 // Of the context that the endpoint's handshake was made with.
  SessionEnd end_ : 5 = SessionEnd::kFinished;  // After draining.
  Drain drain_ : 2 = Drain::kRest;
  bool client_failed_ : 1 = false;  // Else the upstream, while draining.
  State state_ : 3 = State::kSetup;
  bool endpoint_counted_ : 1 = false;
  bool retry_ : 1 = false;  // The upstream transport closes in order to try the next endpoint.
  bool quiet_ : 1 = false;  // Was looked after since it was last active.
};
// All that most of very many connections are.
static_assert(sizeof(L4Session) <= 432);
static_assert(kSessionEndCount <= 32);  // end_

/// Makes L4Sessions.
class L4SessionFactory final : public SessionFactory {
 public:
  void start(ClientAcceptor& acceptor, int fd) override { L4Session::start(acceptor, fd); }
};

}  // namespace sluice
