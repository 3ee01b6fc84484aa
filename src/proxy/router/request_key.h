#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "proxy/config/model/config.h"
#include "proxy/http/message/client_ip.h"
#include "proxy/router/request_attributes.h"

namespace sluice {

/// Returns the part of a request that `key` names; empty if it is missing or is the client's address. Precondition: the
/// fields are known.
std::string_view find_key(const config::HashKey& key, const RequestAttributes& facts);

/// Returns the hash of the part of a request that `key` names, or of the client's address if that part is missing or
/// there is no `key`. Returns nullopt if there is no address either, as with Unix sockets.
std::optional<uint64_t> hash_of_request(const std::optional<config::HashKey>& key, const RequestAttributes& facts);

/// Returns the hash of a client's address without its port, or nullopt if it has none.
std::optional<uint64_t> hash_of_client(const ClientIp& client);

}  // namespace sluice
