#pragma once

#include <cstdint>
#include <string_view>

#include "alts_like/secret_bytes.h"
#include "buffer/buffer.h"
#include "pool/chunk_pool.h"

namespace sluice {

/// What a connection's bytes go through between the socket and the session: records are opened in one direction and
/// sealed in the other. It never sees a socket. Between calls it keeps the beginning of a record that is not complete
/// yet, and what it needs to go on; nothing else.
///
///     RecordLayer::Status status = layer.open(pool, std::move(received), plain);
///     if (layer.has_output()) layer.flush(pool, to_send);      // the alert of a failure, for example
///     if (status == RecordLayer::Status::kFailed) return give_up(layer.error());
class RecordLayer {
 public:
  enum class Status : uint8_t {
    kOpen,    ///< More may follow.
    kEnded,   ///< The peer said that it sends nothing more; what came behind that was dropped.
    kFailed,  ///< See error(). Nothing is opened any more.
  };

  virtual ~RecordLayer() = default;

  /// Opens the records that `wire` completes and appends what they carry to `plain`. Bytes are opened where they are
  /// when they are ours alone. Budget or not: chunks that are needed for that beyond `pool`'s budget are taken.
  virtual Status open(ChunkPool& pool, Buffer&& wire, Buffer& plain) = 0;

  /// Seals `plain` and appends the records to `wire`: in place when the bytes are ours alone, else into fresh chunks.
  /// What has_output() told of goes first. Precondition: seal_end was not called, and no failure was met. With the last
  /// nonce used the connection has failed: what is given is dropped, and open() says so, also when it is given nothing.
  virtual void seal(ChunkPool& pool, Buffer&& plain, Buffer& wire) = 0;

  /// Whether the layer itself has something to send.
  virtual bool has_output() const = 0;
  /// Appends that to `wire`.
  virtual void flush(ChunkPool& pool, Buffer& wire) = 0;
  /// Appends the record that tells the peer that nothing more follows.
  virtual void seal_end(ChunkPool& pool, Buffer& wire) = 0;

  /// Whether the peer says, authenticated, that it sends nothing more. If not, seal_end appends nothing, and an end of
  /// the stream may be anybody's.
  virtual bool tells_end() const { return true; }

  /// Whether the beginning of a record has come and its rest has not: an end of the stream here cuts it. Need not be
  /// known where tells_end().
  virtual bool in_record() const { return false; }

  /// Session tickets that have arrived since the last call: NewSessionTicket messages of TLS 1.3, whole and in a row,
  /// with their 4-byte headers. Only clients of TLS get some.
  virtual Buffer take_tickets() { return {}; }

  /// Appends a byte form of all that the layer is to `out`, for read_record_layer() to go on from, here or in another
  /// process: also in the middle of a record, and behind the peer's end. The layer must not be used any more then.
  /// False, with nothing appended and the layer as it was: it has failed, or holds too much (kMaxRecordStateBytes).
  virtual bool write_state(SecretBytes& out) = 0;

  /// Why the status is kFailed, for logs.
  virtual std::string_view error() const = 0;

  /// Gives back all that can be made again when the next byte comes, and settles what has arrived of a record: for a
  /// connection that waits.
  virtual void park(ChunkPool& pool) = 0;
};

}  // namespace sluice
