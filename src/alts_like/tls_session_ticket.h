#pragma once

#include <cstddef>
#include <optional>

#include "alts_like/tls_alert.h"
#include "sluice/buffer.h"

namespace sluice {

/// The size of the largest possible NewSessionTicket without its header (RFC 8446 section 4.6.1): lifetime, age, nonce,
/// ticket, extensions, and the lengths of the last three.
inline constexpr size_t kMaxTicketMessageBytes = 4 + 4 + (1 + 255) + (2 + 65535) + (2 + 65534);

/// Checks the syntax of a whole NewSessionTicket with its 4-byte header. Returns the alert that RFC 8446 section 6
/// requires for a malformed message, or nothing if the message is well-formed.
std::optional<TlsAlert> check_session_ticket(const Buffer& message);

}  // namespace sluice
