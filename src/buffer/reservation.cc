#include "sluice/reservation.h"

#include <algorithm>
#include <utility>

#include "sluice/internal/check.h"

namespace sluice::inline v0_1 {

Reservation::Reservation(Buffer& buffer, ChunkPool& pool, size_t bytes, size_t chunk_bytes) : buffer_(buffer) {
  SLUICE_CHECK(chunk_bytes > 0 && chunk_bytes <= kMaxChunkBytes);
  while (bytes_ < bytes && count_ < kMaxPieces) {
    Lease& piece = pieces_[count_];
    if (count_ == 0 && buffer.tailroom() > 0) {
      piece = buffer.reserve(pool, 1);
    } else {
      piece = Lease::allocate(pool, chunk_bytes);
      if (piece) piece.grow_back(piece.tailroom());
    }
    if (!piece) return;
    iovecs_[count_++] = {piece.data(), piece.size()};
    bytes_ += piece.size();
  }
}

void Reservation::commit(size_t count) {
  SLUICE_CHECK(count <= bytes_);
  for (size_t i = 0; i < count_; ++i) {
    Lease piece = std::move(pieces_[i]);
    piece.cap_length(count);
    count -= piece.size();
    buffer_.append(std::move(piece));
  }
  count_ = bytes_ = 0;
}

}  // namespace sluice::inline v0_1
