#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <utility>

#include "alts_like/record_layer.h"
#include "alts_like/record_state.h"
#include "alts_like/tls13_keys.h"
#include "alts_like/tls_alert.h"
#include "alts_like/tls_records.h"
#include "sluice/buffer.h"

namespace sluice {

/// The state of a TLS 1.3 connection after its handshake: plain data that wipes its secrets. Together with the buffered
/// bytes (RecordLayer::write_state has both) it suffices to resume the connection in another process.
struct Tls13State {
  struct Flags {
    bool is_client = false;
    bool ended = false;            ///< The peer has sent its close_notify.
    bool update_pending = false;   ///< The peer requested a KeyUpdate that we have not sent yet.
    uint8_t updates_in_a_row = 0;  ///< KeyUpdates since the last application data; bounded.
    uint8_t empty_in_a_row = 0;    ///< Empty records since the last application data; bounded.
    uint8_t warnings = 0;          ///< Warning alerts since the last application data; bounded.
  };
  Tls13Secret read;
  Tls13Secret write;
  Flags flags;
};

/// The record protocol of TLS 1.3 (RFC 8446 section 5) with the messages that may follow a handshake: alerts, key
/// updates, session tickets. A record is opened where the kernel put it, also across chunks.
class Tls13RecordLayer final : public RecordLayer {
 public:
  static constexpr size_t kMaxSealedBytes = kMaxTlsPlainBytes + 256;  // RFC 8446 section 5.2.
  /// Our keys are renewed after this number of records. RFC 8446 section 5.5 allows AES-GCM 2^24.5 full records.
  static constexpr uint64_t kRecordsPerKey = uint64_t{1} << 23;

  /// `arrived`: bytes that followed the handshake. `first`: a server's session tickets, in records that are already
  /// sealed. They precede all other output and are sent together with it.
  explicit Tls13RecordLayer(const Tls13State& state, Buffer arrived = {}, Buffer first = {});

  Status open(ChunkPool& pool, Buffer&& wire, Buffer& plain) override;
  void seal(ChunkPool& pool, Buffer&& plain, Buffer& wire) override;
  /// Whether the alert of a failure is pending. Session tickets and a KeyUpdate that the peer requested do not count:
  /// they wait for the next seal(), so that one KeyUpdate serves all requests until then (RFC 8446 section 4.6.3).
  bool has_output() const override { return alert_owed_; }
  void flush(ChunkPool& pool, Buffer& wire) override;
  void seal_end(ChunkPool& pool, Buffer& wire) override;
  Buffer take_tickets() override { return messages_ ? std::move(messages_->tickets) : Buffer(); }
  bool write_state(SecretBytes& out) override;
  std::string_view protocol() const override { return "TLSv1.3"; }
  std::string_view error() const override { return error_; }
  void park(ChunkPool& pool) override;

  /// Whether the failure is an alert from the peer.
  bool failed_by_peer() const { return failed_by_peer_; }

  /// Renews our keys. `request_update`: requests that the peer renew its keys too.
  void update_keys(ChunkPool& pool, bool request_update, Buffer& wire);

  /// The state to resume from, without the buffered bytes. Precondition: the status is not kFailed.
  Tls13State state() const;
  /// Restores a layer from the bytes after the protocol number. Null if they are not what write_state writes.
  static std::unique_ptr<RecordLayer> read_state(ChunkPool& pool, StateReader& in);

 private:
  /// State that few connections need.
  struct Messages {
    Buffer unfinished;  // The beginning of an incomplete handshake message.
    Buffer tickets;
    Buffer first;        // See the constructor.
    size_t to_skip = 0;  // The bytes left of a ticket that is too large to be useful.
    bool inside() const { return to_skip > 0 || !unfinished.empty(); }
    bool empty() const { return !inside() && tickets.empty() && first.empty(); }
  };

  bool open_record(ChunkPool& pool, Buffer& plain);
  bool decrypt(ChunkPool& pool, std::span<const uint8_t> header, Buffer& record);
  bool deliver(uint8_t type, Buffer&& content, Buffer& plain);
  bool take_alert(const Buffer& content);
  bool take_handshake(Buffer&& content);
  bool take_ticket(size_t length);
  bool take_key_update(uint8_t request);
  bool fail(TlsAlert alert, std::string_view error);
  bool failed_by_peer(uint8_t alert);
  void seal_record(ChunkPool& pool, uint8_t type, Buffer&& body, Buffer& wire);
  void seal_small(ChunkPool& pool, uint8_t type, std::span<const uint8_t> body, Buffer& wire);

  Tls13Keys read_;
  Tls13Keys write_;
  Tls13State::Flags flags_;
  Buffer partial_;  // The beginning of an incomplete record.
  std::unique_ptr<Messages> messages_;
  std::string_view error_;
  uint64_t sealed_bytes_ = 0;  // Since the connection began or was parked.
  Status status_ = Status::kOpen;
  TlsAlert alert_ = TlsAlert::kCloseNotify;
  bool alert_owed_ = false;
  bool failed_by_peer_ = false;
};

}  // namespace sluice
