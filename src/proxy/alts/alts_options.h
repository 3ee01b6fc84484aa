#pragma once

#include <string>

#include "alts_like/handshaker_negotiation.h"
#include "proxy/config/model/config.h"

namespace sluice {

/// What a handshake by the service is about: as configured, on the connection of the socket `fd`. `target_name`: what
/// the endpoint is called, as gRPC has it; empty if it has no name, and for a server.
AltsOptions alts_options(const config::Alts& alts, bool is_client, std::string target_name, int fd);

}  // namespace sluice
