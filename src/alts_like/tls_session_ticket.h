#pragma once

#include <cstddef>
#include <optional>

#include "alts_like/tls_alert.h"
#include "buffer/buffer.h"

namespace sluice {

/// What follows the header of the largest NewSessionTicket that can be written (RFC 8446 section 4.6.1): lifetime, age,
/// a nonce, a ticket, extensions, and the lengths of the last three.
inline constexpr size_t kMostTicketBytes = 4 + 4 + (1 + 255) + (2 + 65535) + (2 + 65534);

/// What is wrong with the syntax of a NewSessionTicket, whole and with its 4-byte header: the alert that RFC 8446
/// section 6 wants for it. Nothing if all is well.
std::optional<TlsAlert> flaw_of_ticket(const Buffer& message);

}  // namespace sluice
