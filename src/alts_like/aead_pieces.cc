#include "alts_like/aead_pieces.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <utility>

#include "sluice/cursor.h"
#include "sluice/internal/check.h"

namespace sluice {

namespace {

// A peer can use a record only when its last byte has arrived. While the congestion window may be small (at the start
// and after an idle period), records fill one segment each. After 64 KiB, a window that began with ten segments holds
// whole large records.
constexpr size_t kSmallRecordBytes = 1350;
constexpr uint64_t kSmallUntilBytes = 64 * 1024;

// An incomplete record in many windows is packed if it has fewer bytes per window than this on average.
constexpr size_t kCompactWindowBytes = 4096;

uint8_t* bytes_of(std::byte* data) { return reinterpret_cast<uint8_t*>(data); }
const uint8_t* bytes_of(const std::byte* data) { return reinterpret_cast<const uint8_t*>(data); }

// Copies `buffer` into the fewest possible chunks.
void pack(ChunkPool& pool, Buffer& buffer) {
  Buffer packed;
  while (packed.size() < buffer.size()) {
    Lease lease = lease_of(pool, std::min(buffer.size() - packed.size(), kMaxChunkBytes));
    buffer.copy_out(packed.size(), lease.bytes());
    packed.append(std::move(lease));
  }
  buffer = std::move(packed);
}

// Fills `pieces` for a cipher that works in place on `buffer`. Returns their number, or 0 if it cannot work in place.
size_t fill_in_place(Buffer& buffer, AeadPieces wanted, std::span<CRYPTO_IOVEC, CRYPTO_IOVEC_MAX> pieces) {
  std::array<Buffer::InOut, CRYPTO_IOVEC_MAX> in_place;
  const size_t count = buffer.fill_in_place(0, buffer.size(), in_place);
  if (count > 1 && wanted == AeadPieces::kOne) return 0;
  static_assert(sizeof(Buffer::InOut) == sizeof(CRYPTO_IOVEC));
  static_assert(offsetof(Buffer::InOut, out) == offsetof(CRYPTO_IOVEC, out));
  static_assert(offsetof(Buffer::InOut, in) == offsetof(CRYPTO_IOVEC, in));
  static_assert(offsetof(Buffer::InOut, bytes) == offsetof(CRYPTO_IOVEC, len));
  std::memcpy(pieces.data(), in_place.data(), count * sizeof(CRYPTO_IOVEC));
  return count;
}

}  // namespace

Lease lease_of(ChunkPool& pool, size_t bytes) { return Lease(ChunkRef::take(pool.get_metadata(bytes)), 0, bytes); }

PiecesToOpen::PiecesToOpen(ChunkPool& pool, Buffer& record, AeadPieces wanted) {
  SLUICE_CHECK(record.size() >= tag_.size());
  Cursor(record, record.size() - tag_.size()).read(tag_);
  record.truncate(record.size() - tag_.size());
  count_ = fill_in_place(record, wanted, pieces_);
  if (count_ > 0 || record.empty()) return;
  pack(pool, record);
  count_ = fill_in_place(record, wanted, pieces_);
  SLUICE_CHECK(count_ > 0);
}

PiecesToSeal::PiecesToSeal(ChunkPool& pool, std::span<const uint8_t> header, Buffer& body,
                           std::span<const uint8_t> last, AeadPieces wanted)
    : body_(body) {
  const size_t bytes = body_.size(), overhead = header.size() + last.size() + AeadContext::kTagBytes;
  count_ = fill_in_place(body_, wanted, pieces_);
  const bool in_place = count_ > 0 || bytes == 0;
  front_ = lease_of(pool, in_place ? overhead : bytes + overhead);
  std::memcpy(front_.data(), header.data(), header.size());
  uint8_t* to = bytes_of(front_.data()) + header.size();
  if (in_place) {
    behind_ = front_.split_off(header.size());
  } else if (wanted == AeadPieces::kOne) {
    body_.copy_out(0, front_.bytes().subspan(header.size(), bytes));
    pieces_[count_++] = {to, to, bytes};
    to += bytes;
  } else {
    // The bytes are shared, so the cipher reads them where they are and writes into the new chunk.
    SLUICE_CHECK(body_.window_count() <= CRYPTO_IOVEC_MAX);
    for (const std::span<const std::byte> window : body_.windows()) {
      pieces_[count_++] = {to, bytes_of(window.data()), window.size()};
      to += window.size();
    }
  }
  tag_ = to + last.size();
  if (last.empty()) return;
  std::memcpy(to, last.data(), last.size());
  if (wanted == AeadPieces::kOne && !in_place) {
    pieces_[0].len += last.size();
  } else {
    SLUICE_CHECK(count_ < pieces_.size());
    pieces_[count_++] = {to, to, last.size()};
  }
}

void PiecesToSeal::append_to(Buffer& wire) {
  wire.append(std::move(front_));
  if (!behind_) return;
  wire.append(std::move(body_));
  wire.append(std::move(behind_));
}

size_t next_record_bytes(const Buffer& plain, uint64_t sealed_bytes, size_t most, size_t pieces) {
  if (sealed_bytes < kSmallUntilBytes) most = std::min(most, kSmallRecordBytes);
  most = std::min(most, plain.size());
  size_t bytes = 0;
  for (const std::span<const std::byte> window : plain.windows()) {
    bytes += window.size();
    if (bytes >= most) return most;
    if (--pieces == 0) break;
  }
  return bytes;
}

void keep_compact(ChunkPool& pool, Buffer& partial) {
  const size_t windows = partial.window_count();
  if (windows > CRYPTO_IOVEC_MAX && partial.size() < windows * kCompactWindowBytes) pack(pool, partial);
}

void settle_all(ChunkPool& pool, Buffer& buffer) {
  if (buffer.size() <= kMaxChunkBytes) {
    buffer.compact(pool);
    return;
  }
  Buffer settled;
  while (!buffer.empty()) {
    Buffer part = buffer.split_front(std::min(buffer.size(), kMaxChunkBytes));
    part.compact(pool);
    settled.append(std::move(part));
  }
  buffer = std::move(settled);
}

}  // namespace sluice
