#include "proxy/transport/transport.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/ssl.h>
#include <sys/socket.h>

#include <utility>

#include "alts_like/read_record_layer.h"
#include "net/worker.h"

namespace sluice {

namespace {

// Receive credit during a handshake, which buffers only a bounded number of bytes.
constexpr size_t kHandshakeCreditBytes = size_t{64} * 1024;

// Reading stops when this many bytes wait for a handshake's next step. Usual flights are smaller.
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
  queue_step(Buffer());
}

void Transport::await_handshake(Buffer&& received) {
  socket_.start_reading();
  if (!received.empty()) queue_step(std::move(received));
}

// Queues the next step as slow work, because it takes as long as forwarding many buffers. Bytes that arrive meanwhile
// join it.
void Transport::queue_step(Buffer&& received) {
  Handshaking& handshaking = *secure_->handshaking;
  handshaking.received.append(std::move(received));
  socket_.worker().yielding_tasks().push(handshaking.step);
  if (handshaking.received.size() >= kHandshakeBytes) socket_.stop_reading();
}

// Whether the handshake needs more bytes from the peer.
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
      if (ended_early_ && wants_bytes()) return report_insecure({});
      wants_bytes() ? socket_.start_reading() : socket_.stop_reading();
      return;
    case Handshake::Status::kFailed:
      return report_insecure(handshaking.handshake->error());
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

// A client without TCP_NODELAY holds its first request until the last bytes of its handshake are acknowledged, and our
// kernel delays the acknowledgment by 40 ms unless something is sent. Sending the session tickets now would help too,
// but then a client that writes and closes without reading would close with a reset, which discards what it wrote.
void Transport::acknowledge_handshake() {
  if (!socket_.open() || socket_.queued() > 0) return;
  const int on = 1;
  // Fails on a Unix socket, which needs no acknowledgments.
  setsockopt(socket_.fd(), IPPROTO_TCP, TCP_QUICKACK, &on, sizeof on);
}

void Transport::report_insecure(std::string_view error) {
  insecure_ = true;
  release_place();  // Only an alert remains to be sent, which should not occupy a place.
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
  insecure_ ? data.clear() : queue_step(std::move(data));
}

void Transport::open_records(Buffer&& wire) {
  RecordLayer& records = *secure_->records;
  Buffer plain;
  const RecordLayer::Status status = records.open(pool(), std::move(wire), plain);
  // Many small records in one receive: a window for each would pin its record and more memory than it carries.
  if (plain.window_count() > 1 && plain.size() < plain.window_count() * Buffer::kPackBytes) {
    Buffer packed;
    packed.append_packed(pool(), std::exchange(plain, {}));
    plain = std::move(packed);
  }
  take_tickets();
  send_alert();
  if (status == RecordLayer::Status::kFailed) sealed_end_ = true;  // Nothing may follow an alert.
  if (plain.empty()) {
    owner_->on_part(*this);
  } else if (!ended_) {
    owner_->on_data(*this, std::move(plain));
  }
  if (!socket_.open()) return;
  if (status == RecordLayer::Status::kFailed) return owner_->on_record_error(*this, records.error());
  if (status == RecordLayer::Status::kEnded) report_end(false);
}

// The first tickets suffice. Then, or when the connection is parked without any, the handshake's memory is freed, and
// later tickets are dropped.
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
    ended_early_ = true;  // The peer may already have sent its whole part of the handshake.
    if (wants_bytes()) report_insecure({});
    return;
  }
  // Without close_notify it is unknown whether the peer meant to end here. Many peers do end without it.
  report_end(secured() && (secure_->records->has_authenticated_end() || secure_->records->in_record()));
}

void Transport::report_end(bool truncated) {
  if (std::exchange(ended_, true)) return;
  owner_->on_end(*this, truncated);
}

size_t Transport::receive_credit(Socket&) {
  return in_handshake() ? kHandshakeCreditBytes : owner_->receive_credit(*this);
}

// ---- Bytes out ----

// Sends a pending alert, unless our direction has ended. Tickets and key updates wait for the next send() or park().
void Transport::send_alert() {
  if (!secure_->records->has_output() || sealed_end_) return;
  Buffer output;
  secure_->records->flush(pool(), output);
  socket_.send(std::move(output));
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
      Buffer output;
      secure_->records->flush(pool(), output);
      socket_.send(std::move(output));
    }
    secure_->records->park(pool());
    secure_->handshaking.reset();
  }
  return !socket_.failed();
}

// ---- Continuing elsewhere ----

namespace {

// The flags of a written state.
enum : uint8_t {
  kOutputEnded = 1,  // Our direction ends after the queued output.
  kInputEnded = 2,   // The peer's direction has ended.
  kSealedEnd = 4,    // Nothing may be sealed any more.
  kSecured = 8,      // The state of the record layer follows.
};

}  // namespace

void Transport::detach() {
  (void)park();  // Its output goes with the queue.
  socket_.detach();
}

bool Transport::write_state(StateWriter& out) {
  if (in_handshake() || insecure_ || socket_.output_failed()) return false;
  out.u8(static_cast<uint8_t>((socket_.write_ended() ? kOutputEnded : 0) | (ended_ ? kInputEnded : 0) |
                              (sealed_end_ ? kSealedEnd : 0) | (secured() ? kSecured : 0)));
  out.buffer(socket_.output());
  if (!secured()) return true;
  SecretBytes records;
  if (!secure_->records->write_state(records)) return false;
  out.u32(static_cast<uint32_t>(records.size()));
  out.bytes(records);
  return true;
}

bool Transport::restore(int fd, StateReader& in) {
  socket_.adopt(fd);
  const uint8_t flags = in.u8();
  Buffer output = in.buffer(pool());
  if (flags & kSecured) {
    secure_ = std::make_unique<Secure>();
    secure_->records = read_record_layer(pool(), in.bytes(in.u32()));
    if (!secure_->records) return false;
  }
  if (!in.ok()) return false;
  ended_ = flags & kInputEnded;
  sealed_end_ = flags & kSealedEnd;
  socket_.send(std::move(output));
  if (flags & kOutputEnded) socket_.shutdown_write();
  return true;
}

void Transport::take_over(Transport& from) {
  SLUICE_DCHECK(!busy() && from.detached() && from.queued() == 0 && !from.insecure_);
  ended_ = from.ended_;
  sealed_end_ = from.sealed_end_;
  secure_ = std::move(from.secure_);
  const bool output_ended = from.socket_.write_ended();
  socket_.adopt(from.socket_.take());
  if (output_ended) socket_.shutdown_write();
}

// ---- The end ----

void Transport::close() {
  release_place();
  socket_.close();
}

void Transport::abort() {
  release_place();
  socket_.abort();
}

// Frees the place among the listener's handshakes at once, because closing may take a while.
void Transport::release_place() {
  if (secure_ && secure_->handshaking) secure_->handshaking->place.reset();
}

void Transport::on_closed(Socket&) {
  secure_.reset();
  ended_ = ended_early_ = insecure_ = sealed_end_ = false;
  owner_->on_closed(*this);
}

}  // namespace sluice
