#include "alts_like/tls12_record_layer.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "alts_like/aead_pieces.h"
#include "sluice/cursor.h"
#include "sluice/internal/check.h"

namespace sluice {

namespace {

constexpr uint16_t kVersion = 0x0303;
constexpr size_t kTagBytes = Tls12Keys::kTagBytes;

enum AlertLevel : uint8_t { kWarning = 1, kFatal = 2 };

}  // namespace

Tls12RecordLayer::Tls12RecordLayer(const Tls12State& state, Buffer arrived)
    : read_(state.read), write_(state.write), flags_(state.flags), partial_(std::move(arrived)) {
  if (flags_.ended) status_ = Status::kEnded;
}

Tls12State Tls12RecordLayer::state() const {
  SLUICE_CHECK(status_ != Status::kFailed);
  return {.read = read_.secret(), .write = write_.secret(), .flags = flags_};
}

// ---- Opening ----

RecordLayer::Status Tls12RecordLayer::open(ChunkPool& pool, Buffer&& wire, Buffer& plain) {
  partial_.append(std::move(wire));
  while (status_ == Status::kOpen && open_record(pool, plain)) {
  }
  if (status_ != Status::kOpen) partial_.clear();
  keep_compact(pool, partial_);
  return status_;
}

// Opens the next record. False when there is nothing more to open.
bool Tls12RecordLayer::open_record(ChunkPool& pool, Buffer& plain) {
  if (partial_.size() < kTlsHeaderBytes) return false;
  const TlsHeader header = TlsHeader::read(partial_);
  if (header.version() != kVersion) return fail(TlsAlert::kProtocolVersion, "a record of another version");
  if (header.length() > kMaxSealedBytes) return fail(TlsAlert::kRecordOverflow, "a record of more than 18432 bytes");
  if (partial_.size() < kTlsHeaderBytes + header.length()) return false;
  if (read_.exhausted()) return fail(TlsAlert::kInternalError, "no sequence numbers are left");

  partial_.trim_front(kTlsHeaderBytes);
  Buffer record = partial_.split_front(header.length());
  if (!decrypt(pool, header.type(), record)) return fail(TlsAlert::kBadRecordMac, "a record that is not authentic");
  if (record.size() > kMaxTlsPlainBytes) return fail(TlsAlert::kRecordOverflow, "more than 16384 bytes in a record");
  return deliver(header.type(), std::move(record), plain);
}

// Decrypts `record` to its content.
bool Tls12RecordLayer::decrypt(ChunkPool& pool, uint8_t type, Buffer& record) {
  std::array<uint8_t, Tls12Keys::kMaxExplicitBytes> nonce;
  const auto explicit_nonce = std::span(nonce).first(read_.explicit_bytes());
  if (record.size() < explicit_nonce.size() + kTagBytes) return false;
  Cursor(record).read(std::as_writable_bytes(explicit_nonce));
  record.trim_front(explicit_nonce.size());
  const PiecesToOpen sealed(pool, record, pieces_for(read_.is_chacha()));
  return read_.open(sealed.pieces(), type, explicit_nonce, sealed.tag());
}

bool Tls12RecordLayer::deliver(uint8_t type, Buffer&& content, Buffer& plain) {
  if (content.empty() && type == kDataRecord) {
    if (++flags_.empty_in_a_row > kMaxEmptyInARow) {
      return fail(TlsAlert::kUnexpectedMessage, "too many empty records");
    }
    return true;
  }
  switch (type) {
    case kDataRecord:
      flags_.empty_in_a_row = flags_.warnings = 0;
      plain.append(std::move(content));
      return true;
    case kAlertRecord:
      return take_alert(content);
    case kHandshakeRecord:
      // RFC 5246 section 7.2.2 has a warning for this, after which a peer may continue; none does so for long.
      return fail(TlsAlert::kNoRenegotiation, "the peer requests renegotiation");
    default:
      return fail(TlsAlert::kUnexpectedMessage, "a record of an unexpected type");
  }
}

bool Tls12RecordLayer::take_alert(const Buffer& content) {
  if (content.size() != 2) return fail(TlsAlert::kDecodeError, "an alert whose size is not 2 bytes");
  Cursor cursor(content);
  const uint8_t level = cursor.u8(), alert = cursor.u8();
  if (level == kWarning) {
    if (alert == static_cast<uint8_t>(TlsAlert::kCloseNotify)) {
      status_ = Status::kEnded;
      flags_.ended = true;
      return false;
    }
    if (++flags_.warnings > kMaxWarnings) return fail(TlsAlert::kUnexpectedMessage, "too many warnings");
    return true;
  }
  if (level != kFatal) return fail(TlsAlert::kIllegalParameter, "an alert of an unknown level");
  status_ = Status::kFailed;
  error_ = tls_alert_name(alert);
  return false;
}

bool Tls12RecordLayer::fail(TlsAlert alert, std::string_view error) {
  status_ = Status::kFailed;
  error_ = error;
  alert_ = alert;
  alert_owed_ = true;
  return false;
}

// ---- Sealing ----

void Tls12RecordLayer::flush(ChunkPool& pool, Buffer& wire) {
  if (std::exchange(alert_owed_, false)) seal_alert(pool, kFatal, alert_, wire);
}

void Tls12RecordLayer::seal_end(ChunkPool& pool, Buffer& wire) {
  flush(pool, wire);
  seal_alert(pool, kWarning, TlsAlert::kCloseNotify, wire);
}

void Tls12RecordLayer::seal(ChunkPool& pool, Buffer&& plain, Buffer& wire) {
  while (!plain.empty() && status_ != Status::kFailed) {
    const size_t bytes = next_record_bytes(plain, sealed_bytes_, kMaxTlsPlainBytes, CRYPTO_IOVEC_MAX);
    sealed_bytes_ += bytes;
    seal_record(pool, kDataRecord, plain.split_front(bytes), wire);
  }
  plain.clear();
}

void Tls12RecordLayer::seal_record(ChunkPool& pool, uint8_t type, Buffer&& body, Buffer& wire) {
  if (write_.exhausted()) {
    fail(TlsAlert::kInternalError, "no sequence numbers are left");
    alert_owed_ = false;  // An alert would need a sequence number too.
    return;
  }
  const size_t explicit_bytes = write_.explicit_bytes();
  std::array<uint8_t, kTlsHeaderBytes + Tls12Keys::kMaxExplicitBytes> front;
  const TlsHeader header = TlsHeader::of(type, explicit_bytes + body.size() + kTagBytes);
  const auto explicit_nonce = write_.next_explicit();
  std::copy_n(explicit_nonce.begin(), explicit_bytes,
              std::copy(header.bytes.begin(), header.bytes.end(), front.begin()));
  PiecesToSeal record(pool, std::span(front).first(kTlsHeaderBytes + explicit_bytes), body, {},
                      pieces_for(write_.is_chacha()));
  write_.seal(record.pieces(), type, record.tag());
  record.append_to(wire);
}

void Tls12RecordLayer::seal_alert(ChunkPool& pool, uint8_t level, TlsAlert alert, Buffer& wire) {
  Lease lease = lease_of(pool, 2);
  lease.data()[0] = std::byte{level};
  lease.data()[1] = static_cast<std::byte>(alert);
  Buffer content;
  content.append(std::move(lease));
  seal_record(pool, kAlertRecord, std::move(content), wire);
}

// ---- Parking ----

void Tls12RecordLayer::park(ChunkPool& pool) {
  read_.park();
  write_.park();
  sealed_bytes_ = 0;
  settle_all(pool, partial_);
}

// ---- Serializing ----

namespace {

void write_secret(StateWriter& out, const Tls12Secret& secret) {
  out.u64(secret.sequence);
  out.bytes(std::span(secret.key).first(secret.key_bytes()));
  out.bytes(std::span(secret.iv).first(secret.iv_bytes()));
}

void read_secret(StateReader& in, Tls12Secret& secret) {
  secret.sequence = in.u64();
  std::ranges::copy(in.bytes(secret.key_bytes()), secret.key.begin());
  std::ranges::copy(in.bytes(secret.iv_bytes()), secret.iv.begin());
}

}  // namespace

bool Tls12RecordLayer::write_state(SecretBytes& bytes) {
  if (status_ == Status::kFailed) return false;
  StateWriter out(bytes, RecordProtocol::kTls12);
  out.u8(static_cast<uint8_t>(read_.secret().cipher));
  write_secret(out, read_.secret());
  write_secret(out, write_.secret());
  out.u8(flags_.ended ? 1 : 0);
  out.u8(flags_.empty_in_a_row);
  out.u8(flags_.warnings);
  out.buffer(partial_);
  return out.done();
}

std::unique_ptr<RecordLayer> Tls12RecordLayer::read_state(ChunkPool& pool, StateReader& in) {
  const Tls12Cipher cipher{in.u8()};
  if (cipher < Tls12Cipher::kAes128Gcm || cipher > Tls12Cipher::kChaCha20Poly1305) return nullptr;
  Tls12State state;
  state.read.cipher = state.write.cipher = cipher;
  read_secret(in, state.read);
  read_secret(in, state.write);
  const uint8_t ended = in.u8();
  state.flags = {.ended = ended == 1, .empty_in_a_row = in.u8(), .warnings = in.u8()};
  Buffer partial = in.buffer(pool);
  if (!in.done() || ended > 1) return nullptr;
  return std::make_unique<Tls12RecordLayer>(state, std::move(partial));
}

}  // namespace sluice
