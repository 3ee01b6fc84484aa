#include "proxy/transport/transport.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/ssl.h>
#include <sys/socket.h>

#include <utility>

#include "net/worker.h"

namespace sluice {

namespace {

// What a bulk receive may bring in the middle of a handshake, where there is a bound to what can wait.
constexpr size_t kHandshakeCreditBytes = size_t{64} * 1024;

// What may wait for a handshake's next step: more than the largest flight that is usual.
constexpr size_t kHandshakeBytes = size_t{32} * 1024;

}  // namespace

ChunkPool& Transport::pool() const { return socket_.worker().pool(); }

// ---- Handshake ----

Handshaking& Transport::prepare_handshake() {
  secure_ = std::make_unique<Secure>();
  secure_->handshaking = std::make_unique<Handshaking>([](void* self) { static_cast<Transport*>(self)->step(); }, this);
  secure_->handshaking->started_ms = socket_.worker().now_ms();
  return *secure_->handshaking;
}

void Transport::begin_handshake() {
  socket_.start_reading();
  go_on(Buffer());
}

void Transport::await_handshake(Buffer&& received) {
  socket_.start_reading();
  if (!received.empty()) go_on(std::move(received));
}

// A step takes as long as many forwarded pieces: it waits for its turn, and what comes meanwhile with it.
void Transport::go_on(Buffer&& received) {
  Handshaking& handshaking = *secure_->handshaking;
  handshaking.received.append(std::move(received));
  socket_.worker().yielding_tasks().push(handshaking.step);
  if (handshaking.received.size() >= kHandshakeBytes) socket_.stop_reading();
}

// Whether the handshake can only go on with more bytes of the peer.
bool Transport::wants_bytes() const {
  const Handshaking& handshaking = *secure_->handshaking;
  return !handshaking.step.queued() && handshaking.handshake->wants_bytes();
}

void Transport::step() {
  if (!socket_.open() || !in_handshake()) return;
  Handshaking& handshaking = *secure_->handshaking;
  Buffer out;
  const Handshake::Status status = handshaking.handshake->advance(pool(), std::move(handshaking.received), out);
  const bool quiet = out.empty();
  socket_.send(std::move(out));
  switch (status) {
    case Handshake::Status::kNeedMore:
      if (ended_early_ && wants_bytes()) return tell_insecure({});
      wants_bytes() ? socket_.start_reading() : socket_.stop_reading();
      return;
    case Handshake::Status::kFailed:
      return tell_insecure(handshaking.handshake->error());
    case Handshake::Status::kDone:
      break;
  }
  const Agreement agreement = handshaking.handshake->agreement();
  const bool is_endpoint = handshaking.tls != nullptr;
  bssl::UniquePtr<SSL_SESSION> session = handshaking.tls ? handshaking.tls->session() : nullptr;
  secure_->records = handshaking.handshake->finish();
  if (handshaking.tls) {
    handshaking.place.reset();
    if (session) owner_->on_session(*this, std::move(session));
  } else {
    secure_->handshaking.reset();
  }
  owner_->on_secured(*this, agreement);
  if (quiet && !is_endpoint) acknowledge_handshake();
}

// A client without TCP_NODELAY keeps its first request back until the last bytes of its handshake are acknowledged, and
// the kernel delays that by 40 ms unless something is sent. Sending the session tickets now would do it too, but a
// client that writes and closes without ever reading would then close with a reset, which discards what it wrote.
void Transport::acknowledge_handshake() {
  if (!socket_.open() || socket_.queued() > 0) return;
  const int on = 1;
  // Fails on a Unix socket, which delays nothing.
  setsockopt(socket_.fd(), IPPROTO_TCP, TCP_QUICKACK, &on, sizeof on);
}

void Transport::tell_insecure(std::string_view error) {
  insecure_ = true;
  leave_handshakes();  // What still goes on is only that the peer is told.
  owner_->on_insecure(*this, error);
}

void Transport::release_arrived() {
  if (secured() && socket_.open()) open_records(Buffer());
  if (ended_early_ && socket_.open()) on_end(socket_);
}

// ---- Bytes in ----

void Transport::on_data(Socket&, Buffer&& data) {
  if (!secure_) return owner_->on_data(*this, std::move(data));
  if (secure_->records) return open_records(std::move(data));
  insecure_ ? data.clear() : go_on(std::move(data));
}

void Transport::open_records(Buffer&& wire) {
  RecordLayer& records = *secure_->records;
  Buffer plain;
  const RecordLayer::Status status = records.open(pool(), std::move(wire), plain);
  take_tickets();
  send_owed();
  if (status == RecordLayer::Status::kFailed) sealed_end_ = true;  // Nothing may follow the alert.
  if (plain.empty()) {
    owner_->on_part(*this);
  } else if (!ended_) {
    owner_->on_data(*this, std::move(plain));
  }
  if (!socket_.open()) return;
  if (status == RecordLayer::Status::kFailed) return owner_->on_record_error(*this, records.error());
  if (status == RecordLayer::Status::kEnded) tell_end(false);
}

// Those that come with the first bytes are enough; afterwards, and when there were none for a while, the handshake's
// memory is worth more, and what else comes is dropped.
void Transport::take_tickets() {
  Buffer tickets = secure_->records->take_tickets();
  if (tickets.empty() || !secure_->handshaking) return;
  const std::unique_ptr<Handshaking> handshaking = std::move(secure_->handshaking);
  for (auto& session : handshaking->tls->sessions_of(std::move(tickets))) {
    owner_->on_session(*this, std::move(session));
  }
}

void Transport::on_end(Socket&) {
  if (in_handshake()) {
    ended_early_ = true;  // It may have said all that it had to.
    if (wants_bytes()) tell_insecure({});
    return;
  }
  // Without an end in TLS nobody knows whether this is where the peer meant to end. It is what most peers do.
  tell_end(secured() && (secure_->records->tells_end() || secure_->records->in_record()));
}

void Transport::tell_end(bool truncated) {
  if (std::exchange(ended_, true)) return;
  owner_->on_end(*this, truncated);
}

size_t Transport::receive_credit(Socket&) {
  return in_handshake() ? kHandshakeCreditBytes : owner_->receive_credit(*this);
}

// ---- Bytes out ----

// An alert; not behind our end. Tickets and the like wait for what is sent next, or for park().
void Transport::send_owed() {
  if (!secure_->records->has_output() || sealed_end_) return;
  Buffer owed;
  secure_->records->flush(pool(), owed);
  socket_.send(std::move(owed));
}

void Transport::send(Buffer&& data) {
  if (!secured()) return socket_.send(std::move(data));
  if (sealed_end_) return data.clear();
  Buffer wire;
  secure_->records->seal(pool(), std::move(data), wire);
  socket_.send(std::move(wire));
}

void Transport::shutdown_write(bool cut) {
  if (!std::exchange(sealed_end_, true) && secured() && !cut) {
    Buffer wire;
    secure_->records->seal_end(pool(), wire);
    socket_.send(std::move(wire));
  }
  socket_.shutdown_write();
}

bool Transport::park() {
  if (secured()) {
    if (!sealed_end_) {
      Buffer owed;
      secure_->records->flush(pool(), owed);
      socket_.send(std::move(owed));
    }
    secure_->records->park(pool());
    secure_->handshaking.reset();
  }
  return !socket_.failed();
}

// ---- The end ----

void Transport::close() {
  leave_handshakes();
  socket_.close();
}

void Transport::abort() {
  leave_handshakes();
  socket_.abort();
}

// At once: closing may take a while.
void Transport::leave_handshakes() {
  if (secure_ && secure_->handshaking) secure_->handshaking->place.reset();
}

void Transport::on_closed(Socket&) {
  secure_.reset();
  ended_ = ended_early_ = insecure_ = sealed_end_ = false;
  owner_->on_closed(*this);
}

}  // namespace sluice
