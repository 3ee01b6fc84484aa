#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "alts_like/aead_pieces.h"
#include "sluice/buffer.h"
#include "sluice/cursor.h"

namespace sluice {

// The part that the records of TLS 1.2 and TLS 1.3 share (RFC 5246 section 6.2, RFC 8446 section 5).

enum TlsContentType : uint8_t { kAlertRecord = 21, kHandshakeRecord = 22, kDataRecord = 23 };

/// Type, version and length.
inline constexpr size_t kTlsHeaderBytes = 5;
inline constexpr size_t kMaxTlsPlainBytes = size_t{1} << 14;

// BoringSSL's limits (ssl/tls_record.cc), so that a peer cannot keep us busy with records that carry nothing.
inline constexpr uint8_t kMaxEmptyInARow = 32;
inline constexpr uint8_t kMaxWarnings = 4;

struct TlsHeader {
  std::array<uint8_t, kTlsHeaderBytes> bytes;

  static TlsHeader of(uint8_t type, size_t length) {
    return {{type, 3, 3, static_cast<uint8_t>(length >> 8), static_cast<uint8_t>(length)}};
  }
  /// Precondition: received.size() >= kTlsHeaderBytes.
  static TlsHeader read(const Buffer& received) {
    TlsHeader header;
    Cursor(received).read(std::as_writable_bytes(std::span(header.bytes)));
    return header;
  }
  uint8_t type() const { return bytes[0]; }
  uint16_t version() const { return static_cast<uint16_t>(bytes[1] << 8 | bytes[2]); }
  size_t length() const { return static_cast<size_t>(bytes[3] << 8 | bytes[4]); }
};

/// BoringSSL's ChaCha20 is 1.6 times as fast on one piece as on four (bench/record_bench: cipher/chacha20, and _in_4).
inline AeadPieces pieces_for(bool is_chacha) { return is_chacha ? AeadPieces::kOne : AeadPieces::kAsTheyLie; }

}  // namespace sluice
