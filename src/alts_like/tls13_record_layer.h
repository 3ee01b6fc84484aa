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
#include "buffer/buffer.h"

namespace sluice {

/// Where a TLS 1.3 connection stands once its handshake is done: plain data, which wipes its secrets. With the bytes
/// that wait (RecordLayer::write_state has both) it is enough to go on in another process.
struct Tls13State {
  struct Flags {
    bool is_client = false;
    bool ended = false;            ///< The peer sends nothing more.
    bool update_owed = false;      ///< The peer asked for new keys and was not answered yet.
    uint8_t updates_in_a_row = 0;  ///< KeyUpdates without application data between them,
    uint8_t empty_in_a_row = 0;    ///< empty records,
    uint8_t warnings = 0;          ///< and warning alerts, of which only so many are borne.
  };
  Tls13Secret read;
  Tls13Secret write;
  Flags flags;
};

/// The record protocol of TLS 1.3 (RFC 8446 section 5) with what may follow a handshake: alerts, key updates, session
/// tickets. A record is opened where the kernel put it, also across chunks.
class Tls13RecordLayer final : public RecordLayer {
 public:
  static constexpr size_t kMaxSealedBytes = kMaxTlsPlainBytes + 256;  // RFC 8446 section 5.2.
  /// Keys are renewed after so many records of ours; RFC 8446 section 5.5 allows AES-GCM 2^24.5 full ones.
  static constexpr uint64_t kRecordsPerKey = uint64_t{1} << 23;

  /// `arrived`: bytes that came behind the handshake. `first`: records of ours that are sealed already, a server's
  /// session tickets. They go before all others, with what is sent next.
  explicit Tls13RecordLayer(const Tls13State& state, Buffer arrived = {}, Buffer first = {});

  Status open(ChunkPool& pool, Buffer&& wire, Buffer& plain) override;
  void seal(ChunkPool& pool, Buffer&& plain, Buffer& wire) override;
  /// The alert of a failure. Other things only wait for what is sealed next: session tickets, and the answer to a
  /// KeyUpdate, so that one answers all that were asked for until then (RFC 8446 section 4.6.3).
  bool has_output() const override { return alert_owed_; }
  void flush(ChunkPool& pool, Buffer& wire) override;
  void seal_end(ChunkPool& pool, Buffer& wire) override;
  Buffer take_tickets() override { return messages_ ? std::move(messages_->tickets) : Buffer(); }
  bool write_state(SecretBytes& out) override;
  std::string_view error() const override { return error_; }
  void park(ChunkPool& pool) override;

  /// Whether the failure is one that the peer told of, in an alert.
  bool failed_by_peer() const { return failed_by_peer_; }

  /// Renews our keys; `ask_peer` to renew theirs too.
  void update_keys(ChunkPool& pool, bool ask_peer, Buffer& wire);

  /// The state to go on from, without the bytes that wait. Precondition: no failure was met.
  Tls13State state() const;
  /// Behind the protocol's number; null if that is not what write_state writes.
  static std::unique_ptr<RecordLayer> read_state(ChunkPool& pool, StateReader& in);

 private:
  /// What few connections ever need.
  struct Messages {
    Buffer unfinished;  // The beginning of a handshake message.
    Buffer tickets;
    Buffer first;        // See the constructor.
    size_t to_skip = 0;  // Of a ticket that is too large to be of use.
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
  Buffer partial_;  // The beginning of a record.
  std::unique_ptr<Messages> messages_;
  std::string_view error_;
  uint64_t sealed_bytes_ = 0;  // Since the connection began or was parked.
  Status status_ = Status::kOpen;
  TlsAlert alert_ = TlsAlert::kCloseNotify;
  bool alert_owed_ = false;
  bool failed_by_peer_ = false;
};

}  // namespace sluice
