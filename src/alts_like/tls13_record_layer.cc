#include "alts_like/tls13_record_layer.h"

#include <cstring>
#include <utility>

#include "alts_like/aead_pieces.h"
#include "buffer/cursor.h"
#include "pool/check.h"

namespace sluice {

namespace {

enum ContentType : uint8_t { kAlertRecord = 21, kHandshakeRecord = 22, kDataRecord = 23 };
enum HandshakeType : uint8_t { kNewSessionTicket = 4, kKeyUpdate = 24 };

constexpr size_t kHandshakeHeaderBytes = 4;
constexpr size_t kTagBytes = Tls13Keys::kTagBytes;

// What BoringSSL bears of each (ssl/tls_record.cc), so that a peer cannot keep us busy with nothing.
constexpr uint8_t kMaxEmptyInARow = 32;
constexpr uint8_t kMaxUpdatesInARow = 32;
constexpr uint8_t kMaxWarnings = 4;

// A session ticket has some hundred bytes; one that holds a client certificate, some thousand.
constexpr size_t kMaxTicketBytes = size_t{16} * 1024;
constexpr size_t kMaxTicketsHeld = size_t{64} * 1024;

// With one more for the type behind the content.
constexpr size_t kMaxPieces = CRYPTO_IOVEC_MAX - 1;

// BoringSSL's ChaCha20 is twice as fast on one piece.
AeadPieces pieces_for(const Tls13Keys& keys) { return keys.is_chacha() ? AeadPieces::kOne : AeadPieces::kAsTheyLie; }

std::array<uint8_t, Tls13RecordLayer::kHeaderBytes> header_of(size_t sealed_bytes) {
  return {kDataRecord, 3, 3, static_cast<uint8_t>(sealed_bytes >> 8), static_cast<uint8_t>(sealed_bytes)};
}

}  // namespace

Tls13RecordLayer::Tls13RecordLayer(const Tls13State& state, Buffer arrived, Buffer first)
    : read_(state.read), write_(state.write), flags_(state.flags), partial_(std::move(arrived)) {
  if (first.empty()) return;
  messages_ = std::make_unique<Messages>();
  messages_->first = std::move(first);
}

Tls13State Tls13RecordLayer::state() const {
  SLUICE_CHECK(status_ == Status::kOpen);
  return {.read = read_.secret(), .write = write_.secret(), .flags = flags_};
}

// ---- Opening ----

RecordLayer::Status Tls13RecordLayer::open(ChunkPool& pool, Buffer&& wire, Buffer& plain) {
  partial_.append(std::move(wire));
  while (status_ == Status::kOpen && open_record(pool, plain)) {
  }
  if (status_ != Status::kOpen) partial_.clear();
  keep_compact(pool, partial_);
  return status_;
}

// False when there is no more to open.
bool Tls13RecordLayer::open_record(ChunkPool& pool, Buffer& plain) {
  if (partial_.size() < kHeaderBytes) return false;
  std::array<uint8_t, kHeaderBytes> header;
  Cursor(partial_).read(std::as_writable_bytes(std::span(header)));
  const uint8_t type = header[0];
  const size_t length = static_cast<size_t>(header[3] << 8 | header[4]);
  // The version has no meaning any more (RFC 8446 section 5.1) but is authenticated.
  if (type != kDataRecord) return fail(TlsAlert::kUnexpectedMessage, "a record that is not encrypted");
  if (length > kMaxSealedBytes) return fail(TlsAlert::kRecordOverflow, "a record of more than 16640 bytes");
  if (partial_.size() < kHeaderBytes + length) return false;
  if (read_.exhausted()) return fail(TlsAlert::kInternalError, "no sequence numbers are left");

  partial_.trim_front(kHeaderBytes);
  Buffer record = partial_.split_front(length);
  if (!decrypt(pool, header, record)) {
    return fail(TlsAlert::kBadRecordMac, "a record that is not authentic");
  }
  // Padding counts too (RFC 8446 section 5.4): 2^14 bytes and the type.
  if (record.size() > kMaxPlainBytes + 1) {
    return fail(TlsAlert::kRecordOverflow, "more than 16384 bytes with their padding in a record");
  }
  // The content ends with its type, and zeros behind it (RFC 8446 section 5.4).
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

// Leaves the content with its type and padding in `record`.
bool Tls13RecordLayer::decrypt(ChunkPool& pool, std::span<const uint8_t> header, Buffer& record) {
  if (record.size() < kTagBytes) return false;
  const PiecesToOpen sealed(pool, record, pieces_for(read_));
  return read_.open(sealed.pieces(), header, sealed.tag());
}

bool Tls13RecordLayer::deliver(uint8_t type, Buffer&& content, Buffer& plain) {
  if (content.size() > kMaxPlainBytes) return fail(TlsAlert::kRecordOverflow, "more than 16384 bytes in a record");
  if (type != kHandshakeRecord && messages_ && !messages_->unfinished.empty()) {
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
      flags_.empty_in_a_row = flags_.updates_in_a_row = 0;
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
  if (content.size() != 2) return fail(TlsAlert::kDecodeError, "an alert of another size than 2 bytes");
  Cursor cursor(content, 1);  // The level before it has no meaning any more (RFC 8446 section 6).
  const uint8_t alert = cursor.u8();
  if (alert == static_cast<uint8_t>(TlsAlert::kCloseNotify)) {
    status_ = Status::kEnded;
    return false;
  }
  if (alert == static_cast<uint8_t>(TlsAlert::kUserCanceled)) {
    if (++flags_.warnings > kMaxWarnings) return fail(TlsAlert::kDecodeError, "too many warnings");
    return true;
  }
  return failed_by_peer(alert);
}

bool Tls13RecordLayer::take_handshake(Buffer&& content) {
  if (!messages_) messages_ = std::make_unique<Messages>();
  Buffer& received = messages_->unfinished;
  received.append(std::move(content));
  while (received.size() >= kHandshakeHeaderBytes) {
    Cursor cursor(received);
    const uint8_t type = cursor.u8();
    const size_t length = cursor.u24be();
    if (type == kKeyUpdate) {
      if (length != 1) return fail(TlsAlert::kDecodeError, "a KeyUpdate of another size than 1 byte");
      if (received.size() < kHandshakeHeaderBytes + length) return true;
      const uint8_t request = cursor.u8();
      received.trim_front(kHandshakeHeaderBytes + length);
      if (!take_key_update(request)) return false;
    } else if (type == kNewSessionTicket && flags_.is_client) {
      if (length > kMaxTicketBytes) return fail(TlsAlert::kIllegalParameter, "a session ticket of more than 16 KiB");
      if (received.size() < kHandshakeHeaderBytes + length) return true;
      Buffer ticket = received.split_front(kHandshakeHeaderBytes + length);
      if (messages_->tickets.size() + ticket.size() <= kMaxTicketsHeld) messages_->tickets.append(std::move(ticket));
    } else {
      return fail(TlsAlert::kUnexpectedMessage, "a handshake message that may not follow the handshake");
    }
  }
  return true;
}

bool Tls13RecordLayer::take_key_update(uint8_t request) {
  // Keys must not change within a record (RFC 8446 section 5.1).
  if (!messages_->unfinished.empty())
    return fail(TlsAlert::kUnexpectedMessage, "a KeyUpdate that does not end its record");
  if (request > 1) return fail(TlsAlert::kIllegalParameter, "a KeyUpdate that is neither a request nor an answer");
  if (++flags_.updates_in_a_row > kMaxUpdatesInARow) return fail(TlsAlert::kUnexpectedMessage, "too many KeyUpdates");
  read_.update();
  // However often it asks before we answer, one answer will do (RFC 8446 section 4.6.3).
  if (request == 1) flags_.update_owed = true;
  return true;
}

bool Tls13RecordLayer::fail(TlsAlert alert, std::string_view error) {
  status_ = Status::kFailed;
  error_ = error;
  alert_ = alert;
  alert_owed_ = true;
  flags_.update_owed = false;
  return false;
}

bool Tls13RecordLayer::failed_by_peer(uint8_t alert) {
  status_ = Status::kFailed;
  error_ = tls_alert_name(alert);
  failed_by_peer_ = true;
  flags_.update_owed = false;
  return false;
}

// ---- Sealing ----

void Tls13RecordLayer::flush(ChunkPool& pool, Buffer& wire) {
  if (messages_) wire.append(std::move(messages_->first));
  if (flags_.update_owed) update_keys(pool, false, wire);
  if (std::exchange(alert_owed_, false)) {
    seal_small(pool, kAlertRecord, std::array<uint8_t, 2>{2, static_cast<uint8_t>(alert_)}, wire);
  }
}

void Tls13RecordLayer::seal_end(ChunkPool& pool, Buffer& wire) {
  flush(pool, wire);
  seal_small(pool, kAlertRecord, std::array<uint8_t, 2>{1, static_cast<uint8_t>(TlsAlert::kCloseNotify)}, wire);
}

void Tls13RecordLayer::update_keys(ChunkPool& pool, bool ask_peer, Buffer& wire) {
  if (messages_) wire.append(std::move(messages_->first));
  flags_.update_owed = false;
  seal_small(pool, kHandshakeRecord, std::array<uint8_t, 5>{kKeyUpdate, 0, 0, 1, static_cast<uint8_t>(ask_peer)}, wire);
  write_.update();
}

void Tls13RecordLayer::seal(ChunkPool& pool, Buffer&& plain, Buffer& wire) {
  flush(pool, wire);
  while (!plain.empty()) {
    if (write_.sequence() >= kRecordsPerKey) update_keys(pool, false, wire);
    const size_t bytes = next_record_bytes(plain, sealed_bytes_, kMaxPlainBytes, kMaxPieces);
    sealed_bytes_ += bytes;
    seal_record(pool, kDataRecord, plain.split_front(bytes), wire);
  }
}

void Tls13RecordLayer::seal_record(ChunkPool& pool, uint8_t type, Buffer&& body, Buffer& wire) {
  const std::array<uint8_t, kHeaderBytes> header = header_of(body.size() + 1 + kTagBytes);
  PiecesToSeal record(pool, header, body, {&type, 1}, pieces_for(write_));
  write_.seal(record.pieces(), header, record.tag());
  record.append_to(wire);
}

void Tls13RecordLayer::seal_small(ChunkPool& pool, uint8_t type, std::span<const uint8_t> body, Buffer& wire) {
  Lease lease = lease_of(pool, body.size());
  std::memcpy(lease.data(), body.data(), body.size());
  Buffer content;
  content.append(std::move(lease));
  seal_record(pool, type, std::move(content), wire);
}

// ---- Waiting ----

void Tls13RecordLayer::park(ChunkPool& pool) {
  read_.park();
  write_.park();
  sealed_bytes_ = 0;
  partial_.settle(pool);
  if (!messages_) return;
  messages_->unfinished.settle(pool);
  messages_->tickets.settle(pool);
  messages_->first.settle(pool);
  if (movable()) messages_.reset();
}

}  // namespace sluice
