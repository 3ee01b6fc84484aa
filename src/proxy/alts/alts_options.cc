#include "proxy/alts/alts_options.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <array>
#include <utility>

namespace sluice {

namespace {

// Empty for a Unix socket: the service knows only IP addresses.
AltsOptions::Endpoint endpoint_of(const sockaddr_storage& storage) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  if (storage.ss_family == AF_INET) {
    const auto& address = reinterpret_cast<const sockaddr_in&>(storage);
    inet_ntop(AF_INET, &address.sin_addr, text.data(), text.size());
    return {text.data(), ntohs(address.sin_port)};
  }
  if (storage.ss_family == AF_INET6) {
    const auto& address = reinterpret_cast<const sockaddr_in6&>(storage);
    inet_ntop(AF_INET6, &address.sin6_addr, text.data(), text.size());
    return {text.data(), ntohs(address.sin6_port)};
  }
  return {};
}

}  // namespace

AltsOptions alts_options(const config::Alts& alts, bool is_client, std::string target_name, int fd) {
  AltsOptions options;
  options.is_client = is_client;
  options.target_service_accounts = alts.target_identities;
  options.target_name = std::move(target_name);
  options.max_frame_bytes = alts.max_frame_size.bytes;
  sockaddr_storage storage{};
  socklen_t length = sizeof storage;
  if (getsockname(fd, reinterpret_cast<sockaddr*>(&storage), &length) == 0) options.local = endpoint_of(storage);
  length = sizeof storage;
  if (getpeername(fd, reinterpret_cast<sockaddr*>(&storage), &length) == 0) options.remote = endpoint_of(storage);
  return options;
}

}  // namespace sluice
