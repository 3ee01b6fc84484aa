#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "alts_like/handshake.h"
#include "alts_like/record_layer.h"
#include "alts_like/record_state.h"
#include "alts_like/tls_handshake.h"
#include "net/socket.h"
#include "net/yielding_task.h"
#include "proxy/common/connection_limits.h"
#include "sluice/buffer.h"

namespace sluice {

/// A handshake in progress on one side of a session.
struct Handshaking {
  Handshaking(YieldingTask::Run run_step, void* transport) : step(run_step, transport) {}

  YieldingTask step;
  std::unique_ptr<Handshake> handshake;
  TlsHandshake* tls = nullptr;   ///< `handshake` if it is TLS with an endpoint, for its sessions; otherwise null.
  Buffer received;               ///< Bytes for the next step, while it waits for its turn.
  ConnectionLimit::Place place;  ///< A client's place among the listener's concurrent handshakes.
  uint64_t started_ms = 0;
};

/// One side of a session: a socket, with an optional record layer. Bytes pass unchanged until a TLS or ALTS handshake
/// is done; from then on the owner sends and receives the payload of the records.
///
///     Handshaking& handshaking = transport.prepare_handshake();
///     handshaking.handshake = std::make_unique<TlsHandshake>(...);
///     transport.begin_handshake();                     // on_secured() or on_insecure() follows, once
///
/// Its lifetime rules are those of Socket. After on_closed() it is as new and may connect again.
class Transport final : private Socket::Owner {
 public:
  /// Receives a transport's events. Each method may call any method of any transport.
  class Owner {
   public:
    virtual void on_connected(Transport&, int) {}
    /// The handshake is done. release_arrived() delivers the bytes that followed it.
    virtual void on_secured(Transport& transport, const Agreement& agreement) = 0;
    /// The handshake failed. An alert for the peer is queued, if there is one; further bytes from the peer are dropped.
    /// `error` is the reason; empty: the peer closed during the handshake.
    virtual void on_insecure(Transport& transport, std::string_view error) = 0;
    virtual void on_data(Transport& transport, Buffer&& data) = 0;
    /// Bytes arrived that delivered no data, such as a part of a record: the peer is alive, and park() has work again.
    virtual void on_part(Transport&) {}
    /// The peer's direction has ended. `truncated`: there was no authenticated end where the protocol has one, or the
    /// end cut an ALTS frame, so it may be an attacker's work.
    virtual void on_end(Transport& transport, bool truncated) = 0;
    virtual void on_sent(Transport& transport) = 0;
    /// Reading or writing failed.
    virtual void on_error(Transport& transport, int error) = 0;
    /// A record violated TLS or ALTS, or the peer sent a fatal alert. An alert for the peer is queued, if there is one.
    virtual void on_record_error(Transport& transport, std::string_view error) = 0;
    virtual void on_closed(Transport& transport) = 0;
    /// The transport is detached(). May be repeated.
    virtual void on_detached(Transport&) {}
    /// A session to resume with the endpoint later.
    virtual void on_session(Transport&, bssl::UniquePtr<SSL_SESSION>) {}
    virtual size_t receive_credit(Transport&) { return Socket::Owner::kDefaultCredit; }

   protected:
    ~Owner() = default;
  };

  Transport(Worker& worker, Owner& owner) : owner_(&owner), socket_(worker, *this) {}

  /// Replaces the owner. The setup of a connection has an owner of its own.
  void set_owner(Owner& owner) { owner_ = &owner; }

  void adopt(int fd, int family) { socket_.adopt(fd, family); }
  void connect(int fd, const sockaddr* address, socklen_t length) { socket_.connect(fd, address, length); }

  /// Makes room for a handshake, which the caller puts in. Until it is done, send() sends bytes unchanged.
  Handshaking& prepare_handshake();
  /// Starts the prepared handshake when our side speaks first.
  void begin_handshake();
  /// Starts the prepared handshake when the peer speaks first. `received`: the peer's bytes that have already arrived.
  void await_handshake(Buffer&& received);
  bool in_handshake() const { return secure_ && secure_->handshaking && !secure_->records && !insecure_; }
  /// The party that the handshake waits for. Precondition: in_handshake().
  std::string awaited() const { return secure_->handshaking->handshake->awaited(); }
  /// Delivers the bytes and the end that followed the handshake, if any, to the owner.
  void release_arrived();

  const Socket& socket() const { return socket_; }
  bool open() const { return socket_.open(); }
  bool busy() const { return socket_.busy(); }
  void start_reading() { socket_.start_reading(); }
  void stop_reading() { socket_.stop_reading(); }
  void receive_little() { socket_.receive_little(); }
  size_t queued() const { return socket_.queued(); }
  bool secured() const { return secure_ && secure_->records; }
  /// RecordLayer::protocol(); empty without records.
  std::string_view protocol() const { return secured() ? secure_->records->protocol() : std::string_view(); }
  // These three are the socket's: see Socket.
  bool input_over() const { return socket_.input_over(); }
  bool gone() const { return socket_.gone(); }
  size_t unread() const { return socket_.unread(); }
  /// Whether sent bytes have not reached the peer yet and still may. Makes system calls.
  bool owes() const { return socket_.open() && !gone() && (queued() > 0 || socket_.unacknowledged() > 0); }
  /// Whether on_end() was called.
  bool ended() const { return ended_; }

  /// Seals `data` if there are records, and queues it. Precondition: shutdown_write() was not called.
  void send(Buffer&& data);
  /// Ends our direction after the queued bytes, with an authenticated end if the protocol has one. `cut`: without that
  /// end, because the data sent is incomplete.
  void shutdown_write(bool cut = false);
  bool write_shut() const { return socket_.write_shut(); }
  void close();
  void abort();

  // To continue the connection in another process:
  //
  //     transport.detach();                                          // on_detached() follows
  //     if (transport.write_state(state)) send(state, transport.take());
  //     ...
  //     if (!transport.restore(fd, reader)) ...                      // there

  /// Starts to detach the socket: see Socket. Precondition: no handshake is in progress.
  void detach();
  void reattach() { socket_.reattach(); }
  bool detached() const { return socket_.detached(); }
  /// Serializes what restore() needs. Precondition: detached(). False if it is not possible: take() must not be called
  /// then, and the transport may only be closed.
  bool write_state(StateWriter& out);
  /// Takes the descriptor away; on_closed() follows. Precondition: write_state() has returned true.
  int take() { return socket_.take(); }
  /// Continues a connection that write_state() has written. Takes ownership of the descriptor. Reading has to be
  /// started. False if the state is malformed; the transport may only be closed then. Precondition: not busy().
  bool restore(int fd, StateReader& in);
  /// Continues the connection of `from`, which is as after take() then. Reading has to be started. Preconditions:
  /// `from` is detached() and has nothing queued; not busy().
  void take_over(Transport& from);

  /// For an idle connection: sends the pending output of the record layer and frees its memory. False if the socket has
  /// failed without an event (Socket::failed).
  bool park();

 private:
  /// State of TLS or ALTS; absent on plaintext connections.
  struct Secure {
    std::unique_ptr<Handshaking> handshaking;  ///< Kept for a while with an endpoint, for tickets after the handshake.
    std::unique_ptr<RecordLayer> records;
  };

  void on_connected(Socket&, int error) override { owner_->on_connected(*this, error); }
  void on_data(Socket&, Buffer&& data) override;
  void on_end(Socket&) override;
  void on_sent(Socket&) override { owner_->on_sent(*this); }
  void on_error(Socket&, int error) override { owner_->on_error(*this, error); }
  void on_closed(Socket&) override;
  void on_detached(Socket&) override { owner_->on_detached(*this); }
  size_t receive_credit(Socket&) override;

  void queue_step(Buffer&& received);
  void step();
  void acknowledge_handshake();
  void open_records(Buffer&& wire);
  void take_tickets();
  void send_alert();
  void report_end(bool truncated);
  void report_insecure(std::string_view error);
  void release_place();
  bool wants_bytes() const;
  ChunkPool& pool() const;

  Owner* owner_;
  [[no_unique_address]] Socket socket_;  // The flags below fit into the 4 bytes of padding at its end.
  bool ended_ = false;
  bool ended_early_ = false;  // The peer ended its direction before the handshake was done.
  bool insecure_ = false;     // The handshake failed.
  bool sealed_end_ = false;
  std::unique_ptr<Secure> secure_;
};

}  // namespace sluice
