#include "proxy/compression/compressor.h"

#include <algorithm>
#include <utility>

#include "sluice/internal/check.h"
#include "sluice/lease.h"

namespace sluice {

namespace {

// Output room is allocated at half the size of the remaining input, within bounds that avoid both waste and many small
// steps.
constexpr size_t kLeastRoomBytes = 256;
constexpr size_t kMostRoomBytes = size_t{16} * 1024;

Lease take_room(ChunkPool& pool, size_t in_bytes) {
  const size_t bytes = std::clamp(in_bytes / 2, kLeastRoomBytes, kMostRoomBytes);
  Lease room(ChunkRef::take(pool.get_metadata(bytes)), 0, 0);
  room.grow_back(room.tailroom());
  return room;
}

}  // namespace

bool Compressor::compress(ChunkPool& pool, Buffer&& input, Then then, Buffer& out) {
  while (input.window_count() > 1) {
    const std::span<const std::byte> window = input.window(0);
    if (!compress_window(pool, window, Then::kMore, out)) return false;
    input.trim_front(window.size());
  }
  const bool done = compress_window(pool, input.empty() ? std::span<const std::byte>() : input.window(0), then, out);
  input.clear();
  return done;
}

bool Compressor::compress_window(ChunkPool& pool, std::span<const std::byte> window, Then then, Buffer& out) {
  for (Step step{window, {}};;) {
    Lease room = take_room(pool, step.in.size());
    step.out = room.bytes();
    const Result result = run(step, then);
    room.truncate(room.size() - step.out.size());
    if (!room.empty()) out.append(std::move(room));
    if (result != Result::kNeedsRoom) return result == Result::kDone;
  }
}

std::unique_ptr<Compressor> make_compressor(ContentCoding coding) {
  switch (coding) {
    case ContentCoding::kGzip:
      return make_gzip_compressor();
    case ContentCoding::kBrotli:
      return make_brotli_compressor();
    case ContentCoding::kZstd:
      return make_zstd_compressor();
    case ContentCoding::kIdentity:
      break;
  }
  SLUICE_CHECK(false);
  return nullptr;
}

}  // namespace sluice
