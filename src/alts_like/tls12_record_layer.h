#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "alts_like/record_layer.h"
#include "alts_like/record_state.h"
#include "alts_like/tls12_keys.h"
#include "alts_like/tls_alert.h"
#include "sluice/buffer.h"

namespace sluice {

/// The state of a TLS 1.2 connection after its handshake: plain data that wipes its secrets. Together with the buffered
/// bytes (RecordLayer::write_state has both) it suffices to resume the connection in another process.
struct Tls12State {
  struct Flags {
    bool ended = false;          ///< The peer has sent its close_notify.
    uint8_t empty_in_a_row = 0;  ///< Empty records since the last application data; bounded.
    uint8_t warnings = 0;        ///< Warning alerts since the last application data; bounded.
  };
  Tls12Secret read;
  Tls12Secret write;
  Flags flags;
};

/// The record protocol of TLS 1.2 (RFC 5246 section 6) with authenticated encryption, and its alerts. A record is
/// opened where the kernel put it, also across chunks. A peer that requests renegotiation is refused, which ends the
/// connection.
class Tls12RecordLayer final : public RecordLayer {
 public:
  static constexpr size_t kMaxSealedBytes = kMaxTlsPlainBytes + 2048;  // RFC 5246 section 6.2.3.

  /// `arrived`: bytes that followed the handshake.
  explicit Tls12RecordLayer(const Tls12State& state, Buffer arrived = {});

  Status open(ChunkPool& pool, Buffer&& wire, Buffer& plain) override;
  void seal(ChunkPool& pool, Buffer&& plain, Buffer& wire) override;
  /// Whether the alert of a failure is pending.
  bool has_output() const override { return alert_owed_; }
  void flush(ChunkPool& pool, Buffer& wire) override;
  void seal_end(ChunkPool& pool, Buffer& wire) override;
  bool write_state(SecretBytes& out) override;
  std::string_view protocol() const override { return "TLSv1.2"; }
  std::string_view error() const override { return error_; }
  void park(ChunkPool& pool) override;

  /// The state to resume from, without the buffered bytes. Precondition: the status is not kFailed.
  Tls12State state() const;
  /// Restores a layer from the bytes after the protocol number. Null if they are not what write_state writes.
  static std::unique_ptr<RecordLayer> read_state(ChunkPool& pool, StateReader& in);

 private:
  bool open_record(ChunkPool& pool, Buffer& plain);
  bool decrypt(ChunkPool& pool, uint8_t type, Buffer& record);
  bool deliver(uint8_t type, Buffer&& content, Buffer& plain);
  bool take_alert(const Buffer& content);
  bool fail(TlsAlert alert, std::string_view error);
  void seal_record(ChunkPool& pool, uint8_t type, Buffer&& body, Buffer& wire);
  void seal_alert(ChunkPool& pool, uint8_t level, TlsAlert alert, Buffer& wire);

  Tls12Keys read_;
  Tls12Keys write_;
  Tls12State::Flags flags_;
  Buffer partial_;  // The beginning of an incomplete record.
  std::string_view error_;
  uint64_t sealed_bytes_ = 0;  // Since the connection began or was parked.
  Status status_ = Status::kOpen;
  TlsAlert alert_ = TlsAlert::kCloseNotify;
  bool alert_owed_ = false;
};

}  // namespace sluice
