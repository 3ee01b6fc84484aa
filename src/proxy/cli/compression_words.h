#pragma once

#include <string>

#include "proxy/config/model/config.h"
#include "proxy/http/message/head.h"

namespace sluice {

/// Describes which responses to a request are compressed, and how; or why none is.
std::string compression_for(const config::Compression& compression, const config::HttpRoute& route,
                            const Head& request);

}  // namespace sluice
