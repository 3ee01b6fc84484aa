#pragma once

#include "alts_like/handshaker_negotiation.h"
#include "proxy/config/config.h"

namespace sluice {

/// What a handshake by the service is about: as configured, on the connection of the socket `fd`.
AltsOptions alts_options(const config::Alts& alts, bool is_client, int fd);

}  // namespace sluice
