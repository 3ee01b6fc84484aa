#pragma once

#include <sys/uio.h>

#include <array>
#include <cstddef>
#include <span>

#include "sluice/buffer.h"
#include "sluice/lease.h"

namespace sluice::inline v0_1 {

/// Room behind a buffer in several pieces, for one readv or recvmsg that may bring more than a chunk holds. The first
/// piece is the buffer's tailroom, if it has any; the others are fresh chunks. The buffer receives the bytes at
/// commit(), and must not be used before that. Dropping a reservation, or committing less, gives the rest back to the
/// pool. Needs no memory but the chunks.
///
///     Reservation room(input, pool, 256 << 10);
///     if (room.empty()) return wait_for_memory();
///     const ssize_t count = readv(fd, room.iovecs().data(), static_cast<int>(room.iovecs().size()));
///     if (count > 0) room.commit(static_cast<size_t>(count));
class Reservation {
 public:
  static constexpr size_t kMaxPieces = 8;

  /// Reserves at least `bytes`, or less if the pool's budget or kMaxPieces is used up first: size() tells. Fresh chunks
  /// have at least `chunk_bytes`. The buffer and the pool must live until commit(). Precondition: 0 < chunk_bytes <=
  /// kMaxChunkBytes.
  Reservation(Buffer& buffer, ChunkPool& pool, size_t bytes, size_t chunk_bytes = kMaxChunkBytes);
  Reservation(const Reservation&) = delete;
  Reservation& operator=(const Reservation&) = delete;

  /// The pieces, in order, for readv. They stay valid until commit() or the end of the reservation.
  std::span<const iovec> iovecs() const { return std::span(iovecs_).first(count_); }
  /// The total of the pieces.
  size_t size() const { return bytes_; }
  /// Whether nothing could be reserved.
  bool empty() const { return bytes_ == 0; }

  /// Appends the first `count` bytes of the pieces to the buffer, and gives the other pieces back. The reservation is
  /// empty afterwards. Precondition: count <= size().
  void commit(size_t count);

 private:
  Buffer& buffer_;
  std::array<Lease, kMaxPieces> pieces_;
  std::array<iovec, kMaxPieces> iovecs_;
  size_t count_ = 0;
  size_t bytes_ = 0;
};

}  // namespace sluice::inline v0_1
