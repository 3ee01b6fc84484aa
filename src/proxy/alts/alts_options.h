#pragma once

#include <string>

#include "alts_like/handshaker_negotiation.h"
#include "proxy/config/model/config.h"

namespace sluice {

/// The options of a handshake by the service: the configured ones, and the addresses of the socket `fd`. `target_name`:
/// the endpoint's name, in the sense of gRPC; empty if it has no name, and for a server.
AltsOptions alts_options(const config::Alts& alts, bool is_client, std::string target_name, int fd);

}  // namespace sluice
