#include "alts_like/tls_session_ticket.h"

#include <algorithm>
#include <cstdint>
#include <vector>

#include "sluice/cursor.h"

namespace sluice {

namespace {

constexpr size_t kMessageHeaderBytes = 4;
constexpr uint16_t kEarlyData = 42;

}  // namespace

std::optional<TlsAlert> check_session_ticket(const Buffer& message) {
  Cursor cursor(message, kMessageHeaderBytes);
  cursor.skip(4 + 4);  // Lifetime and age_add.
  cursor.skip(cursor.u8());
  const size_t ticket_bytes = cursor.u16be();
  cursor.skip(ticket_bytes);
  const size_t extension_bytes = cursor.u16be();
  if (!cursor.ok() || ticket_bytes == 0 || extension_bytes != cursor.remaining()) return TlsAlert::kDecodeError;
  std::vector<uint16_t> types;
  while (cursor.ok() && cursor.remaining() > 0) {
    types.push_back(cursor.u16be());
    const size_t bytes = cursor.u16be();
    if (types.back() == kEarlyData && bytes != 4) return TlsAlert::kDecodeError;
    cursor.skip(bytes);
  }
  if (!cursor.ok()) return TlsAlert::kDecodeError;
  // No extension may occur twice (RFC 8446 section 4.2).
  std::sort(types.begin(), types.end());
  if (std::adjacent_find(types.begin(), types.end()) != types.end()) return TlsAlert::kIllegalParameter;
  return std::nullopt;
}

}  // namespace sluice
