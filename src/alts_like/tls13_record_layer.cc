#include "alts_like/tls13_record_layer.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>

#include "alts_like/aead_pieces.h"
#include "alts_like/tls_session_ticket.h"
#include "sluice/cursor.h"
#include "sluice/internal/check.h"

namespace sluice {

namespace {

enum HandshakeType : uint8_t { kNewSessionTicket = 4, kKeyUpdate = 24 };

constexpr size_t kHandshakeHeaderBytes = 4;
constexpr size_t kTagBytes = Tls13Keys::kTagBytes;

// BoringSSL's limit (ssl/tls13_both.cc), so that a peer cannot keep us busy with KeyUpdates.
constexpr uint8_t kMaxUpdatesInARow = 32;

// A session ticket has some hundred bytes, or some thousand if it holds a client certificate. Larger tickets are legal
// but hardly fit into a ClientHello, so they are dropped as they arrive.
constexpr size_t kMaxTicketBytes = size_t{16} * 1024;
constexpr size_t kMaxTicketsHeld = size_t{64} * 1024;

// One more piece is for the type after the content.
constexpr size_t kMaxPieces = CRYPTO_IOVEC_MAX - 1;

}  // namespace

Tls13RecordLayer::Tls13RecordLayer(const Tls13State& state, Buffer arrived, Buffer first)
    : read_(state.read), write_(state.write), flags_(state.flags), partial_(std::move(arrived)) {
  if (flags_.ended) status_ = Status::kEnded;
  if (first.empty()) return;
  messages_ = std::make_unique<Messages>();
  messages_->first = std::move(first);
}

Tls13State Tls13RecordLayer::state() const {
  SLUICE_CHECK(status_ != Status::kFailed);
  return {.read = read_.secret(), .write = write_.secret(), .flags = flags_};
}

// ---- Opening ----

RecordLayer::Status Tls13RecordLayer::open(ChunkPool& pool, Buffer&& wire, Buffer& plain) {
  partial_.append(std::move(wire));
  while (status_ == Status::kOpen && open_record(pool, plain)) {
  }
  if (status_ != Status::kOpen) partial_.clear();
  keep_compact(pool, partial_);
  if (messages_) keep_compact(pool, messages_->unfinished);
  return status_;
}

// Opens the next record. False when there is nothing more to open.
bool Tls13RecordLayer::open_record(ChunkPool& pool, Buffer& plain) {
  if (partial_.size() < kTlsHeaderBytes) return false;
  // The header's version is ignored (RFC 8446 section 5.1), but it is authenticated.
  const TlsHeader header = TlsHeader::read(partial_);
  if (header.type() != kDataRecord) return fail(TlsAlert::kUnexpectedMessage, "a record that is not encrypted");
  if (header.length() > kMaxSealedBytes) return fail(TlsAlert::kRecordOverflow, "a record of more than 16640 bytes");
  if (partial_.size() < kTlsHeaderBytes + header.length()) return false;
  if (read_.exhausted()) return fail(TlsAlert::kInternalError, "no sequence numbers are left");

  partial_.trim_front(kTlsHeaderBytes);
  Buffer record = partial_.split_front(header.length());
  if (!decrypt(pool, header.bytes, record)) {
    return fail(TlsAlert::kBadRecordMac, "a record that is not authentic");
  }
  // The limit is 2^14 bytes and the type, padding included (RFC 8446 section 5.4).
  if (record.size() > kMaxTlsPlainBytes + 1) {
    return fail(TlsAlert::kRecordOverflow, "more than 16384 bytes with their padding in a record");
  }
  // The content is followed by its type and zero padding (RFC 8446 section 5.4).
  while (!record.empty()) {
    const std::span<const std::byte> last = record.back();
    size_t used = last.size();
    while (used > 0 && last[used - 1] == std::byte{0}) --used;
    if (used == 0) {
      record.truncate(record.size() - last.size());
      continue;
    }
    const uint8_t inner_type = static_cast<uint8_t>(last[used - 1]);
    record.truncate(record.size() - (last.size() - used) - 1);
    return deliver(inner_type, std::move(record), plain);
  }
  return fail(TlsAlert::kUnexpectedMessage, "a record without a content type");
}

// Decrypts `record` to its content, type and padding.
bool Tls13RecordLayer::decrypt(ChunkPool& pool, std::span<const uint8_t> header, Buffer& record) {
  if (record.size() < kTagBytes) return false;
  const PiecesToOpen sealed(pool, record, pieces_for(read_.is_chacha()));
  return read_.open(sealed.pieces(), header, sealed.tag());
}

bool Tls13RecordLayer::deliver(uint8_t type, Buffer&& content, Buffer& plain) {
  if (content.size() > kMaxTlsPlainBytes) return fail(TlsAlert::kRecordOverflow, "more than 16384 bytes in a record");
  if (type != kHandshakeRecord && messages_ && messages_->inside()) {
    return fail(TlsAlert::kUnexpectedMessage, "another record inside a handshake message");
  }
  switch (type) {
    case kDataRecord:
      if (content.empty()) {
        if (++flags_.empty_in_a_row > kMaxEmptyInARow) {
          return fail(TlsAlert::kUnexpectedMessage, "too many empty records");
        }
        return true;
      }
      flags_.empty_in_a_row = flags_.updates_in_a_row = flags_.warnings = 0;
      plain.append(std::move(content));
      return true;
    case kAlertRecord:
      return take_alert(content);
    case kHandshakeRecord:
      if (content.empty()) return fail(TlsAlert::kUnexpectedMessage, "an empty handshake record");
      return take_handshake(std::move(content));
    default:
      return fail(TlsAlert::kUnexpectedMessage, "an unknown content type");
  }
}

bool Tls13RecordLayer::take_alert(const Buffer& content) {
  // Zero-length alerts are forbidden (RFC 8446 section 5.4).
  if (content.empty()) return fail(TlsAlert::kUnexpectedMessage, "an empty alert record");
  if (content.size() != 2) return fail(TlsAlert::kDecodeError, "an alert whose size is not 2 bytes");
  Cursor cursor(content, 1);  // Skips the level, which is ignored (RFC 8446 section 6).
  const uint8_t alert = cursor.u8();
  if (alert == static_cast<uint8_t>(TlsAlert::kCloseNotify)) {
    status_ = Status::kEnded;
    flags_.ended = true;
    return false;
  }
  if (alert == static_cast<uint8_t>(TlsAlert::kUserCanceled)) {
    if (++flags_.warnings > kMaxWarnings) return fail(TlsAlert::kUnexpectedMessage, "too many warnings");
    return true;
  }
  return failed_by_peer(alert);
}

bool Tls13RecordLayer::take_handshake(Buffer&& content) {
  if (!messages_) messages_ = std::make_unique<Messages>();
  const size_t skipped = std::min(messages_->to_skip, content.size());
  messages_->to_skip -= skipped;
  content.trim_front(skipped);
  Buffer& received = messages_->unfinished;
  received.append(std::move(content));
  while (received.size() >= kHandshakeHeaderBytes) {
    Cursor cursor(received);
    const uint8_t type = cursor.u8();
    const size_t length = cursor.u24be();
    if (type == kKeyUpdate) {
      if (length != 1) return fail(TlsAlert::kDecodeError, "a KeyUpdate whose size is not 1 byte");
      if (received.size() < kHandshakeHeaderBytes + length) return true;
      const uint8_t request = cursor.u8();
      received.trim_front(kHandshakeHeaderBytes + length);
      if (!take_key_update(request)) return false;
    } else if (type == kNewSessionTicket && flags_.is_client) {
      if (length > kMaxTicketMessageBytes) return fail(TlsAlert::kDecodeError, "a session ticket that is too long");
      if (length <= kMaxTicketBytes && received.size() < kHandshakeHeaderBytes + length) return true;
      if (!take_ticket(kHandshakeHeaderBytes + length)) return false;
    } else {
      return fail(TlsAlert::kUnexpectedMessage, "a handshake message that may not follow the handshake");
    }
  }
  return true;
}

// Takes a ticket message of `length` bytes, header included. A large one may not have arrived completely.
bool Tls13RecordLayer::take_ticket(size_t length) {
  Buffer& received = messages_->unfinished;
  if (length > kHandshakeHeaderBytes + kMaxTicketBytes) {
    const size_t here = std::min(length, received.size());
    received.trim_front(here);
    messages_->to_skip = length - here;
    return true;
  }
  Buffer ticket = received.split_front(length);
  if (const auto flaw = check_session_ticket(ticket)) return fail(*flaw, "a malformed session ticket");
  if (messages_->tickets.size() + ticket.size() <= kMaxTicketsHeld) messages_->tickets.append(std::move(ticket));
  return true;
}

bool Tls13RecordLayer::take_key_update(uint8_t request) {
  // Keys must not change within a record (RFC 8446 section 5.1).
  if (!messages_->unfinished.empty())
    return fail(TlsAlert::kUnexpectedMessage, "a KeyUpdate that does not end its record");
  if (request > 1) return fail(TlsAlert::kIllegalParameter, "a KeyUpdate with an invalid request_update");
  if (++flags_.updates_in_a_row > kMaxUpdatesInARow) return fail(TlsAlert::kUnexpectedMessage, "too many KeyUpdates");
  read_.update();
  // One KeyUpdate of ours serves all requests until it is sent (RFC 8446 section 4.6.3).
  if (request == 1) flags_.update_pending = true;
  return true;
}

bool Tls13RecordLayer::fail(TlsAlert alert, std::string_view error) {
  status_ = Status::kFailed;
  error_ = error;
  alert_ = alert;
  alert_owed_ = true;
  flags_.update_pending = false;
  return false;
}

bool Tls13RecordLayer::failed_by_peer(uint8_t alert) {
  status_ = Status::kFailed;
  error_ = tls_alert_name(alert);
  failed_by_peer_ = true;
  flags_.update_pending = false;
  return false;
}

// ---- Sealing ----

void Tls13RecordLayer::flush(ChunkPool& pool, Buffer& wire) {
  if (messages_) wire.append(std::move(messages_->first));
  if (flags_.update_pending) update_keys(pool, false, wire);
  if (std::exchange(alert_owed_, false)) {
    seal_small(pool, kAlertRecord, std::array<uint8_t, 2>{2, static_cast<uint8_t>(alert_)}, wire);
  }
}

void Tls13RecordLayer::seal_end(ChunkPool& pool, Buffer& wire) {
  flush(pool, wire);
  seal_small(pool, kAlertRecord, std::array<uint8_t, 2>{1, static_cast<uint8_t>(TlsAlert::kCloseNotify)}, wire);
}

void Tls13RecordLayer::update_keys(ChunkPool& pool, bool request_update, Buffer& wire) {
  if (messages_) wire.append(std::move(messages_->first));
  flags_.update_pending = false;
  seal_small(pool, kHandshakeRecord, std::array<uint8_t, 5>{kKeyUpdate, 0, 0, 1, static_cast<uint8_t>(request_update)},
             wire);
  write_.update();
}

void Tls13RecordLayer::seal(ChunkPool& pool, Buffer&& plain, Buffer& wire) {
  flush(pool, wire);
  while (!plain.empty()) {
    if (write_.sequence() >= kRecordsPerKey) update_keys(pool, false, wire);
    const size_t bytes = next_record_bytes(plain, sealed_bytes_, kMaxTlsPlainBytes, kMaxPieces);
    sealed_bytes_ += bytes;
    seal_record(pool, kDataRecord, plain.split_front(bytes), wire);
  }
}

void Tls13RecordLayer::seal_record(ChunkPool& pool, uint8_t type, Buffer&& body, Buffer& wire) {
  const TlsHeader header = TlsHeader::of(kDataRecord, body.size() + 1 + kTagBytes);
  PiecesToSeal record(pool, header.bytes, body, {&type, 1}, pieces_for(write_.is_chacha()));
  write_.seal(record.pieces(), header.bytes, record.tag());
  record.append_to(wire);
}

void Tls13RecordLayer::seal_small(ChunkPool& pool, uint8_t type, std::span<const uint8_t> body, Buffer& wire) {
  Lease lease = lease_of(pool, body.size());
  std::memcpy(lease.data(), body.data(), body.size());
  Buffer content;
  content.append(std::move(lease));
  seal_record(pool, type, std::move(content), wire);
}

// ---- Parking ----

void Tls13RecordLayer::park(ChunkPool& pool) {
  read_.park();
  write_.park();
  sealed_bytes_ = 0;
  settle_all(pool, partial_);
  if (!messages_) return;
  messages_->unfinished.compact(pool);
  messages_->tickets.compact(pool);
  settle_all(pool, messages_->first);
  if (messages_->empty()) messages_.reset();
}

// ---- Serializing ----

namespace {

enum StateFlag : uint8_t { kIsClient = 1, kEnded = 2, kUpdateOwed = 4, kAllFlags = 7 };

void write_secret(StateWriter& out, const Tls13Secret& secret) {
  out.u16(static_cast<uint16_t>(secret.cipher));
  out.u64(secret.sequence);
  out.u8(secret.size);
  out.bytes(std::span(secret.bytes).first(secret.size));
}

std::optional<Tls13Secret> read_secret(StateReader& in) {
  const Tls13Cipher cipher{in.u16()};
  const uint64_t sequence = in.u64();
  const std::span<const uint8_t> secret = in.bytes(in.u8());
  if (cipher < Tls13Cipher::kAes128Gcm || cipher > Tls13Cipher::kChaCha20Poly1305) return std::nullopt;
  return Tls13Secret::from(cipher, secret, sequence);
}

}  // namespace

bool Tls13RecordLayer::write_state(SecretBytes& bytes) {
  if (status_ == Status::kFailed) return false;
  StateWriter out(bytes, RecordProtocol::kTls13);
  write_secret(out, read_.secret());
  write_secret(out, write_.secret());
  out.u8(static_cast<uint8_t>((flags_.is_client ? kIsClient : 0) | (flags_.ended ? kEnded : 0) |
                              (flags_.update_pending ? kUpdateOwed : 0)));
  out.u8(flags_.updates_in_a_row);
  out.u8(flags_.empty_in_a_row);
  out.u8(flags_.warnings);
  out.buffer(partial_);
  const Messages none{};
  const Messages& messages = messages_ ? *messages_ : none;
  out.u32(static_cast<uint32_t>(messages.to_skip));
  out.buffer(messages.unfinished);
  out.buffer(messages.tickets);
  out.buffer(messages.first);
  return out.done();
}

std::unique_ptr<RecordLayer> Tls13RecordLayer::read_state(ChunkPool& pool, StateReader& in) {
  const std::optional<Tls13Secret> read = read_secret(in), write = read_secret(in);
  if (!read || !write || read->cipher != write->cipher) return nullptr;
  // Our sequence restarts at kRecordsPerKey. The peer's may be exhausted; open() handles that.
  if (write->sequence > 2 * kRecordsPerKey) return nullptr;
  const uint8_t flags = in.u8();
  Tls13State state{.read = *read, .write = *write, .flags = {}};
  state.flags.is_client = flags & kIsClient;
  state.flags.ended = flags & kEnded;
  state.flags.update_pending = flags & kUpdateOwed;
  state.flags.updates_in_a_row = in.u8();
  state.flags.empty_in_a_row = in.u8();
  state.flags.warnings = in.u8();
  Buffer partial = in.buffer(pool);
  Messages messages;
  messages.to_skip = in.u32();
  messages.unfinished = in.buffer(pool);
  messages.tickets = in.buffer(pool);
  messages.first = in.buffer(pool);
  if (!in.done() || (flags & ~kAllFlags) != 0 || messages.to_skip > kMaxTicketMessageBytes ||
      messages.tickets.size() > kMaxTicketsHeld ||
      messages.unfinished.size() > kHandshakeHeaderBytes + kMaxTicketBytes) {
    return nullptr;
  }
  auto layer = std::make_unique<Tls13RecordLayer>(state, std::move(partial));
  if (!messages.empty()) layer->messages_ = std::make_unique<Messages>(std::move(messages));
  return layer;
}

}  // namespace sluice
