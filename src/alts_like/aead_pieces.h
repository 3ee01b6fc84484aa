#pragma once

#include <openssl/aead.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "alts_like/aead_context.h"
#include "sluice/buffer.h"
#include "sluice/chunk_pool.h"
#include "sluice/lease.h"

namespace sluice {

// The part that all record protocols share. Records are opened where the kernel put them and sealed where their bytes
// are, in as many pieces as one call of a cipher takes. All functions here take chunks beyond the pool's budget if they
// must.

/// Whether a cipher takes a record in the pieces in which it lies, or in one piece, at the cost of a copy.
enum class AeadPieces : uint8_t { kAsTheyLie, kOne };

/// The pieces of one record for the cipher that opens it.
class PiecesToOpen {
 public:
  /// Cuts the tag off `record`. The rest is what the caller opens; it is copied first if it is shared or lies in too
  /// many pieces. Precondition: kTagBytes <= record.size() <= CRYPTO_IOVEC_MAX * kMaxChunkBytes, and <= kMaxChunkBytes
  /// for one piece.
  PiecesToOpen(ChunkPool& pool, Buffer& record, AeadPieces wanted);

  std::span<const CRYPTO_IOVEC> pieces() const { return std::span(pieces_).first(count_); }
  std::span<const uint8_t> tag() const { return {reinterpret_cast<const uint8_t*>(tag_.data()), tag_.size()}; }

 private:
  std::array<CRYPTO_IOVEC, CRYPTO_IOVEC_MAX> pieces_;
  size_t count_;
  std::array<std::byte, AeadContext::kTagBytes> tag_;
};

/// A record while it is sealed. A body that nobody else refers to is sealed in place, between a header and a tag that
/// share a small chunk. Any other body is sealed into a new chunk.
///
///     PiecesToSeal record(pool, header, body, {}, AeadPieces::kAsTheyLie);
///     context.seal(record.pieces(), nonce, header, record.tag());
///     record.append_to(wire);
class PiecesToSeal {
 public:
  /// `last` is sealed after the body, which must outlive this object. Precondition: the record is at most
  /// kMaxChunkBytes, tag included, and the body has at most CRYPTO_IOVEC_MAX windows, or one less if there is a `last`.
  PiecesToSeal(ChunkPool& pool, std::span<const uint8_t> header, Buffer& body, std::span<const uint8_t> last,
               AeadPieces wanted);

  std::span<const CRYPTO_IOVEC> pieces() const { return std::span(pieces_).first(count_); }
  /// Where the cipher writes the tag.
  uint8_t* tag() const { return tag_; }
  /// Appends the record. Call once, after sealing. A body that was sealed in place is empty then; any other is
  /// unchanged.
  void append_to(Buffer& wire);

 private:
  std::array<CRYPTO_IOVEC, CRYPTO_IOVEC_MAX> pieces_;
  size_t count_;
  uint8_t* tag_;
  Buffer& body_;
  Lease front_;
  Lease behind_;  // Empty if the body is not sealed in place.
};

/// Takes a chunk, beyond the budget if it must, with `bytes` in use. Precondition: bytes <= kMaxChunkBytes.
Lease lease_of(ChunkPool& pool, size_t bytes);

/// How many bytes of `plain` go into the next record: at most `most`, from at most `pieces` windows. Records stay small
/// until `sealed_bytes`, counted since the connection began or was parked, suggests a large congestion window.
size_t next_record_bytes(const Buffer& plain, uint64_t sealed_bytes, size_t most, size_t pieces);

/// Packs an incomplete record if its windows are many and small, so that dripping bytes do not pin one chunk each.
void keep_compact(ChunkPool& pool, Buffer& partial);
/// Buffer::compact for any number of bytes.
void settle_all(ChunkPool& pool, Buffer& buffer);

}  // namespace sluice
