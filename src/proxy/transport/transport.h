#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "alts_like/handshake.h"
#include "alts_like/record_layer.h"
#include "alts_like/tls_handshake.h"
#include "buffer/buffer.h"
#include "net/socket.h"
#include "net/yielding_task.h"
#include "proxy/common/connection_limits.h"

namespace sluice {

/// A handshake that is under way on one side of a session.
struct Handshaking {
  Handshaking(YieldingTask::Run run_step, void* transport) : step(run_step, transport) {}

  YieldingTask step;
  std::unique_ptr<Handshake> handshake;
  TlsHandshake* tls = nullptr;   ///< The same, where it is TLS with an endpoint: for its sessions.
  Buffer received;               ///< For the next step, which waits for its turn.
  ConnectionLimit::Place place;  ///< A client's, among the listener's handshakes.
  uint64_t started_ms = 0;
};

/// One side of a session: a socket, and what its bytes go through. At first that is nothing; a handshake of TLS or ALTS
/// may be run, and what is given and got from then on are the bytes inside its records.
///
///     Handshaking& handshaking = transport.prepare_handshake();
///     handshaking.handshake = std::make_unique<TlsHandshake>(...);
///     transport.begin_handshake();                     // on_secured() or on_insecure() follows, once
///
/// Life is as a Socket's: when it has closed it is as new, and may connect again.
class Transport final : private Socket::Owner {
 public:
  /// What the owner hears. Each may call any method of any transport.
  class Owner {
   public:
    virtual void on_connected(Transport&, int) {}
    /// The handshake is done. What came behind it is given by release_arrived().
    virtual void on_secured(Transport& transport, const Agreement& agreement) = 0;
    /// The handshake failed. What is to be told about it to the peer is queued; what it still sends is dropped. `error`
    /// says why; empty: the peer closed in the middle of it.
    virtual void on_insecure(Transport& transport, std::string_view error) = 0;
    virtual void on_data(Transport& transport, Buffer&& data) = 0;
    /// Bytes came, but no record is whole with them: the peer is alive, and park() has something to do again.
    virtual void on_part(Transport&) {}
    /// The peer sends nothing more. `truncated`: it has not said so in TLS, or has stopped in the middle of a frame of
    /// ALTS, so that this may be somebody else's doing.
    virtual void on_end(Transport& transport, bool truncated) = 0;
    virtual void on_sent(Transport& transport) = 0;
    /// Reading or writing failed.
    virtual void on_error(Transport& transport, int error) = 0;
    /// A record was not what TLS or ALTS allows. What is to be told about it to the peer is queued.
    virtual void on_record_error(Transport& transport, std::string_view error) = 0;
    virtual void on_closed(Transport& transport) = 0;
    /// A session to resume with the endpoint later.
    virtual void on_session(Transport&, bssl::UniquePtr<SSL_SESSION>) {}
    virtual size_t receive_credit(Transport&) { return Socket::Owner::kDefaultCredit; }

   protected:
    ~Owner() = default;
  };

  Transport(Worker& worker, Owner& owner) : owner_(&owner), socket_(worker, *this) {}

  /// Whoever hears from now on: a connection's beginning has an owner of its own.
  void set_owner(Owner& owner) { owner_ = &owner; }

  void adopt(int fd, int family) { socket_.adopt(fd, family); }
  void connect(int fd, const sockaddr* address, socklen_t length) { socket_.connect(fd, address, length); }

  /// Makes room for a handshake, which the caller puts in it. What is sent before it is done goes as it is.
  Handshaking& prepare_handshake();
  /// Starts it, where we are the one who speaks first;
  void begin_handshake();
  /// where the peer does, of whom `received` has come already.
  void await_handshake(Buffer&& received);
  bool in_handshake() const { return secure_ && secure_->handshaking && !secure_->records && !insecure_; }
  /// Whom the handshake waits for.
  std::string awaited() const { return secure_->handshaking->handshake->awaited(); }
  /// Gives what arrived behind the handshake, if something did, to the owner's on_data.
  void release_arrived();

  const Socket& socket() const { return socket_; }
  bool open() const { return socket_.open(); }
  bool busy() const { return socket_.busy(); }
  void start_reading() { socket_.start_reading(); }
  void stop_reading() { socket_.stop_reading(); }
  size_t queued() const { return socket_.queued(); }
  bool secured() const { return secure_ && secure_->records; }
  /// As the socket says: see there.
  bool input_over() const { return socket_.input_over(); }
  bool gone() const { return socket_.gone(); }
  size_t unread() const { return socket_.unread(); }
  /// Whether something was sent that the peer does not have yet and may still get. System calls.
  bool owes() const { return socket_.open() && !gone() && (queued() > 0 || socket_.unacknowledged() > 0); }
  /// Whether the peer's end was told.
  bool ended() const { return ended_; }

  /// Precondition: shutdown_write() was not called.
  void send(Buffer&& data);
  /// Says, also in TLS, that nothing follows what was sent. `cut`: TLS is not told, as what was sent is not all.
  void shutdown_write(bool cut = false);
  bool write_shut() const { return socket_.write_shut(); }
  void close();
  void abort();

  /// For one that waits: what its records owe goes out, and their memory is given back. False if it has failed without
  /// a word (Socket::failed).
  bool park();

 private:
  /// Only where there is, or is to be, TLS or ALTS.
  struct Secure {
    std::unique_ptr<Handshaking> handshaking;  ///< Stays a while with an endpoint, for the tickets that come behind it.
    std::unique_ptr<RecordLayer> records;
  };

  void on_connected(Socket&, int error) override { owner_->on_connected(*this, error); }
  void on_data(Socket&, Buffer&& data) override;
  void on_end(Socket&) override;
  void on_sent(Socket&) override { owner_->on_sent(*this); }
  void on_error(Socket&, int error) override { owner_->on_error(*this, error); }
  void on_closed(Socket&) override;
  size_t receive_credit(Socket&) override;

  void go_on(Buffer&& received);
  void step();
  void acknowledge_handshake();
  void open_records(Buffer&& wire);
  void take_tickets();
  void send_owed();
  void tell_end(bool truncated);
  void tell_insecure(std::string_view error);
  void leave_handshakes();
  bool wants_bytes() const;
  ChunkPool& pool() const;

  Owner* owner_;
  [[no_unique_address]] Socket socket_;  // Its last 4 bytes are free, for what follows:
  bool ended_ = false;
  bool ended_early_ = false;  // Before the handshake was done.
  bool insecure_ = false;     // The handshake failed.
  bool sealed_end_ = false;
  std::unique_ptr<Secure> secure_;
};

}  // namespace sluice
