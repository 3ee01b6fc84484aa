// Buffers of given bytes with boundaries at given positions, for tests and fuzzers of parsers.
#pragma once

#include <algorithm>
#include <array>
#include <concepts>
#include <cstddef>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sluice/buffer.h"

namespace sluice::test {

/// The lease with `bytes` written after its bytes. Precondition: the room is there.
inline Lease filled(Lease lease, std::string_view bytes) {
  const size_t size = lease.size();
  lease.grow_back(bytes.size());
  if (!bytes.empty()) std::memcpy(lease.data() + size, bytes.data(), bytes.size());
  return lease;
}

/// Cuts `bytes` at each of `splits` (offsets in ascending order; those at an end or repeated do nothing), turns each
/// piece into a window of its own by `take(piece)`, which returns a Lease or a View, and chains them.
template <typename Take>
Buffer chain_of(std::string_view bytes, std::span<const size_t> splits, Take take) {
  Buffer buffer;
  size_t begin = 0;
  const auto add_until = [&](size_t end) {
    while (begin < end) {
      const std::string_view piece = bytes.substr(begin, std::min(end - begin, kMaxChunkBytes));
      buffer.append(take(piece));
      begin += piece.size();
    }
  };
  for (size_t split : splits) add_until(std::min(split, bytes.size()));
  add_until(bytes.size());
  return buffer;
}

/// Each piece is at the start of a chunk of `pool`, which must have the budget, and is writable.
inline Buffer buffer_of(ChunkPool& pool, std::string_view bytes, std::span<const size_t> splits) {
  return chain_of(bytes, splits, [&pool](std::string_view piece) {
    Lease lease = Lease::allocate(pool, piece.size());
    SLUICE_CHECK(lease);
    return filled(std::move(lease), piece);
  });
}

/// buffer_of(pool, "GET / HTTP/1.1\r\n", 3, 5) has the windows "GET", " /" and " HTTP/1.1\r\n".
template <std::convertible_to<size_t>... Splits>
Buffer buffer_of(ChunkPool& pool, std::string_view bytes, Splits... splits) {
  const std::array<size_t, sizeof...(Splits)> at{static_cast<size_t>(splits)...};
  return buffer_of(pool, bytes, std::span<const size_t>(at));
}

/// Each piece is a heap chunk of exactly its size, so that AddressSanitizer detects each read past a window. No pool
/// needed.
inline Buffer heap_buffer_of(std::string_view bytes, std::span<const size_t> splits = {}) {
  return chain_of(bytes, splits, [](std::string_view piece) {
    return filled(Lease(ChunkRef::take(heap_chunk(piece.size())), 0, 0), piece);
  });
}

/// The offsets that cut `size` bytes into pieces of `piece_bytes`, for the functions above.
inline std::vector<size_t> splits_every(size_t piece_bytes, size_t size) {
  std::vector<size_t> splits;
  for (size_t at = piece_bytes; at < size; at += piece_bytes) splits.push_back(at);
  return splits;
}

/// All bytes of a buffer.
inline std::string text_of(const Buffer& buffer) {
  std::string text;
  for (size_t i = 0; i < buffer.window_count(); ++i) {
    const std::span<const std::byte> window = buffer.window(i);
    text.append(reinterpret_cast<const char*>(window.data()), window.size());
  }
  return text;
}

/// The bytes of pairs of hexadecimal digits; everything else in `hex` is skipped.
inline std::string from_hex(std::string_view hex) {
  std::string bytes;
  int high = -1;
  for (const char c : hex) {
    const size_t digit = std::string_view("0123456789abcdef").find(static_cast<char>(c | 0x20));
    if (digit == std::string_view::npos) continue;
    if (high < 0) {
      high = static_cast<int>(digit);
    } else {
      bytes.push_back(static_cast<char>(high * 16 + static_cast<int>(digit)));
      high = -1;
    }
  }
  return bytes;
}

}  // namespace sluice::test
