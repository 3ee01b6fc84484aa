#pragma once

#include <cstdint>
#include <string_view>

#include "alts_like/secret_bytes.h"
#include "sluice/buffer.h"
#include "sluice/chunk_pool.h"

namespace sluice {

/// Converts a connection's bytes between the socket and the session: it opens records in one direction and seals them
/// in the other. It never sees a socket. Between calls it holds only its own state and the beginning of an incomplete
/// record.
///
///     RecordLayer::Status status = layer.open(pool, std::move(received), plain);
///     if (layer.has_output()) layer.flush(pool, to_send);      // the alert of a failure, for example
///     if (status == RecordLayer::Status::kFailed) return give_up(layer.error());
class RecordLayer {
 public:
  enum class Status : uint8_t {
    kOpen,    ///< More may follow.
    kEnded,   ///< The peer has sent its end. Bytes after it were dropped.
    kFailed,  ///< See error(). Nothing more is opened.
  };

  virtual ~RecordLayer() = default;

  /// Opens the records that `wire` completes and appends their payload to `plain`. Bytes that nobody else refers to are
  /// opened in place. Chunks are taken beyond `pool`'s budget if they must.
  virtual Status open(ChunkPool& pool, Buffer&& wire, Buffer& plain) = 0;

  /// Seals `plain` and appends the records to `wire`: in place if nobody else refers to the bytes, otherwise into new
  /// chunks. The layer's own output goes first. Precondition: seal_end was not called, and the status is not kFailed.
  /// When all nonces have been used, the layer has failed: `plain` is dropped, and the next open() returns kFailed,
  /// even with an empty `wire`.
  virtual void seal(ChunkPool& pool, Buffer&& plain, Buffer& wire) = 0;

  /// Whether the layer has output of its own, such as an alert, that should be sent now.
  virtual bool has_output() const = 0;
  /// Appends the layer's own output to `wire`.
  virtual void flush(ChunkPool& pool, Buffer& wire) = 0;
  /// Appends the record that ends our direction.
  virtual void seal_end(ChunkPool& pool, Buffer& wire) = 0;

  /// Whether the protocol has an authenticated end. If not, seal_end appends nothing, and an attacker on the network
  /// can end the stream unnoticed.
  virtual bool has_authenticated_end() const { return true; }

  /// Whether a record has arrived only in part, so that an end of the stream now would truncate it. Layers with
  /// has_authenticated_end() need not know.
  virtual bool in_record() const { return false; }

  /// Session tickets that have arrived since the last call: whole NewSessionTicket messages of TLS 1.3, one after the
  /// other, with their 4-byte headers. Only TLS clients receive them.
  virtual Buffer take_tickets() { return {}; }

  /// Serializes the layer's state to `out`, so that read_record_layer() can resume it here or in another process. This
  /// also works in the middle of a record and after the peer's end. The layer must not be used afterwards. False, with
  /// nothing appended and the layer unchanged: it has failed, or its state exceeds kMaxRecordStateBytes.
  virtual bool write_state(SecretBytes& out) = 0;

  /// The name of the protocol, as Agreement::version has it: `TLSv1.3`, for instance. A string literal; empty if the
  /// bytes are not protected.
  virtual std::string_view protocol() const { return {}; }

  /// The reason for kFailed, for logs.
  virtual std::string_view error() const = 0;

  /// Frees all memory that can be rebuilt when the next byte arrives, and compacts an incomplete record. For idle
  /// connections.
  virtual void park(ChunkPool& pool) = 0;
};

}  // namespace sluice
