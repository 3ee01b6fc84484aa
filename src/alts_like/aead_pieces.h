#pragma once

#include <openssl/aead.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "alts_like/aead_context.h"
#include "buffer/buffer.h"
#include "buffer/lease.h"
#include "pool/chunk_pool.h"

namespace sluice {

// What record protocols have in common: records are opened where the kernel put them and sealed where the bytes are,
// in as many pieces as one call of a cipher takes. All of it takes chunks beyond the pool's budget if need be.

/// Whether a cipher gets a record as it lies, or in one piece, at the cost of a copy.
enum class AeadPieces : uint8_t { kAsTheyLie, kOne };

/// The bytes of a record for the cipher that opens it.
class PiecesToOpen {
 public:
  /// Cuts the tag off `record`; the rest is to be opened. Where that is shared with others or lies in too many pieces,
  /// it is copied first. Precondition: kTagBytes <= record.size() <= CRYPTO_IOVEC_MAX * kMaxChunkBytes, and
  /// <= kMaxChunkBytes for one piece.
  PiecesToOpen(ChunkPool& pool, Buffer& record, AeadPieces wanted);

  std::span<const CRYPTO_IOVEC> pieces() const { return std::span(pieces_).first(count_); }
  std::span<const uint8_t> tag() const { return {reinterpret_cast<const uint8_t*>(tag_.data()), tag_.size()}; }

 private:
  std::array<CRYPTO_IOVEC, CRYPTO_IOVEC_MAX> pieces_;
  size_t count_;
  std::array<std::byte, AeadContext::kTagBytes> tag_;
};

/// A record that is being sealed: in place, between a header and a tag that share a small chunk, if its bytes are ours
/// alone; else straight into a chunk of its own.
///
///     PiecesToSeal record(pool, header, body, {}, AeadPieces::kAsTheyLie);
///     context.seal(record.pieces(), nonce, header, record.tag());
///     record.append_to(wire);
class PiecesToSeal {
 public:
  /// `last`: bytes that are sealed behind the body. Precondition: all of it is at most kMaxChunkBytes, tag included,
  /// and the body, which must outlive this, has at most CRYPTO_IOVEC_MAX windows, or one less if there is a `last`.
  PiecesToSeal(ChunkPool& pool, std::span<const uint8_t> header, Buffer& body, std::span<const uint8_t> last,
               AeadPieces wanted);

  std::span<const CRYPTO_IOVEC> pieces() const { return std::span(pieces_).first(count_); }
  /// Where the tag goes.
  uint8_t* tag() const { return tag_; }
  /// Call once, when it is sealed. The body is empty, or as it was.
  void append_to(Buffer& wire);

 private:
  std::array<CRYPTO_IOVEC, CRYPTO_IOVEC_MAX> pieces_;
  size_t count_;
  uint8_t* tag_;
  Buffer& body_;
  Lease front_;
  Lease behind_;  // Not there if the body is not sealed in place.
};

/// A chunk that there must be, with `bytes` in use. Precondition: bytes <= kMaxChunkBytes.
Lease lease_of(ChunkPool& pool, size_t bytes);

/// How much of `plain` goes into the next record: at most `most`, and what lies in at most `pieces` windows; less while
/// few bytes were sealed since the connection began or waited.
size_t next_record_bytes(const Buffer& plain, uint64_t sealed_bytes, size_t most, size_t pieces);

/// For the beginning of a record whose rest is still to come: a drip of bytes must not keep one chunk for each.
void keep_compact(ChunkPool& pool, Buffer& partial);
/// Buffer::compact, for any number of bytes.
void settle_all(ChunkPool& pool, Buffer& buffer);

}  // namespace sluice
