#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "buffer/buffer.h"
#include "net/socket.h"
#include "net/timer_wheel.h"
#include "proxy/l4/peer_address.h"
#include "proxy/limits/connection_limits.h"
#include "proxy/session.h"
#include "proxy/stats/l4_counters.h"
#include "proxy/tls/session_tls.h"
#include "proxy/upstream/balancer.h"

namespace sluice {

class L4Acceptor;
struct ClientHello;

/// One proxied TCP connection: client, chosen endpoint, and the bytes between them.
///
/// accepted -> [PROXY header] -> [TLS handshake, or a look at the ClientHello] -> connecting (perhaps to several
/// endpoints) -> [TLS handshake] -> forwarding -> closing.
/// While it forwards it holds no buffer of its own: what one socket receives goes straight to the other's queue. Only
/// the stages before need more (`Setup`), which is gone by then. It destroys itself when both sockets are closed.
class L4Session final : public Session, public Socket::Owner {
 public:
  /// Takes the descriptor of an accepted connection, which its limits have admitted.
  static void start(L4Acceptor& acceptor, int fd);

  /// Resets both sides: the time to drain is over.
  void shut_down() override { finish(SessionEnd::kShutdown); }

 private:
  enum class State : uint8_t {
    kProxyHeader,
    kHello,
    kHandshake,
    kConnecting,
    kForwarding,
    kLastWords,  ///< One side is told in TLS what was wrong; then it ends.
    kClosing,
  };

  /// What is needed only until bytes flow.
  struct Setup {
    Buffer held;         ///< Received from the client, not yet passed on.
    size_t wanted = 0;   ///< Parsing again is pointless before so many bytes are held.
    PeerAddress source;  ///< As the PROXY header says; else not set.
    PeerAddress destination;
    std::unique_ptr<Agreement> agreed;  ///< With the client, where TLS or ALTS was terminated.
    TriedEndpoints tried;
    uint32_t attempts = 0;
  };

  L4Session(L4Acceptor& acceptor, int fd);
  ~L4Session();

  void on_connected(Socket& socket, int error) override;
  void on_data(Socket& socket, Buffer&& data) override;
  void on_end(Socket& socket) override;
  void on_sent(Socket& socket) override;
  void on_error(Socket& socket, int error) override;
  void on_closed(Socket& socket) override;
  size_t receive_credit(Socket& socket) override;

  void begin();
  void on_timer();
  void arm_timer(uint64_t due_ms);
  void wait_for_more();
  void read_proxy_header();
  void after_proxy_header();
  void begin_client_handshake();
  void look_after_handshake();
  void go_on_with_handshake(Socket& socket, Buffer&& received);
  std::unique_ptr<Handshake> make_client_handshake(Handshaking& handshaking);
  std::unique_ptr<Handshake> make_upstream_handshake(Handshaking& handshaking);
  std::unique_ptr<Handshake> make_alts_handshake(const config::Alts& alts, SSL_CTX* context, const Socket& socket,
                                                 Handshaking& handshaking);
  Handshake::Status advance(Handshaking& handshaking, Socket& socket);
  bool wants_bytes(const Socket& socket) const;
  void read_for_handshake(Socket& socket);
  void client_handshake();
  void begin_upstream_handshake();
  void upstream_handshake();
  void keep_session(bssl::UniquePtr<SSL_SESSION> session);
  void take_session_tickets();
  void log_late_handshake(const Socket& with, uint64_t after_ms) const;
  void log_failure(const Socket& with, std::string_view error) const;
  bool admit_source();
  void refuse(Refusal reason);
  void read_hello();
  void route(const ClientHello* hello);
  void connect_next();
  bool open_upstream();
  void connect_failed(ConnectError error);
  void leave_endpoint();
  void forward();
  void queue_proxy_header(Buffer& to);
  void pass_on(Socket& from, Buffer&& data);
  void side_ended(Socket& socket, bool truncated = false);
  void note_activity();
  void look_after_quiet();
  void park_records(Socket& socket);
  void finish(SessionEnd end);
  void finish_after_last_words(SessionEnd end, Socket& to);
  size_t high_mark() const;
  void maybe_finished();

  /// The records that bytes of a side are in, or null.
  RecordLayer* records_of(const Socket& socket) {
    return tls_ ? (is_client(socket) ? tls_->client : tls_->upstream).records.get() : nullptr;
  }
  bool is_client(const Socket& socket) const { return &socket == &client_; }
  Socket& other(Socket& socket) { return is_client(socket) ? upstream_ : client_; }
  /// Whether the side has sent its end, and the other was told.
  bool ended(const Socket& socket) const { return is_client(socket) ? client_ended_ : upstream_ended_; }
  bool has_queued() const { return client_.queued() > 0 || upstream_.queued() > 0; }
  PeerAddress client_source() const;
  PeerAddress client_destination() const;
  ListenerCounters& counters();
  EndpointCounters& endpoint_counters();

  L4Acceptor& acceptor_;
  Socket client_;
  Socket upstream_;
  Timer timer_;
  std::unique_ptr<Setup> setup_;
  std::unique_ptr<SessionTls> tls_;
  Balancer* balancer_ = nullptr;
  uint64_t started_ms_;
  uint64_t last_active_ms_;
  uint64_t acknowledged_ = 0;  // By both peers, when the session was last looked after.
  uint32_t upstream_index_ = 0;
  uint32_t endpoint_index_ = 0;
  Source source_;
  State state_ = State::kConnecting;
  SessionEnd end_ = SessionEnd::kFinished;  // After the last words.
  bool source_counted_ : 1 = false;
  bool endpoint_counted_ : 1 = false;
  bool retry_ : 1 = false;  // The upstream socket closes in order to try the next endpoint.
  bool client_ended_ : 1 = false;
  bool upstream_ended_ : 1 = false;
  bool quiet_ : 1 = false;  // Was looked after since it was last active.
};

}  // namespace sluice
