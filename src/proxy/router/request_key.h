#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "proxy/config/model/config.h"
#include "proxy/http/message/client_ip.h"
#include "proxy/router/request_attributes.h"

namespace sluice {

/// What `key` names of a request whose fields are known; empty where that is missing, or is the client's address.
std::string_view find_key(const config::HashKey& key, const RequestAttributes& facts);

/// The hash of what `key` names of a request; of the client's address where that is missing, or without `key`. Nothing
/// where there is no address either, as with Unix sockets.
std::optional<uint64_t> hash_of_request(const std::optional<config::HashKey>& key, const RequestAttributes& facts);

/// The hash of a client's address, whatever its port; nothing as above.
std::optional<uint64_t> hash_of_client(const ClientIp& client);

}  // namespace sluice
