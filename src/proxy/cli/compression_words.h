#pragma once

#include <string>

#include "proxy/config/model/config.h"
#include "proxy/http/message/head.h"

namespace sluice {

/// Which answers to a request of a client are compressed, and how; or why none is.
std::string compression_for(const config::Compression& compression, const config::HttpRoute& route,
                            const Head& request);

}  // namespace sluice
