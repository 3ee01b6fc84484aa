#include "proxy/common/peer_address.h"

#include <arpa/inet.h>

#include <algorithm>
#include <array>
#include <cstring>

namespace sluice {
namespace {

constexpr std::array<std::byte, 12> kMappedPrefix = {std::byte{0}, std::byte{0}, std::byte{0},    std::byte{0},
                                                     std::byte{0}, std::byte{0}, std::byte{0},    std::byte{0},
                                                     std::byte{0}, std::byte{0}, std::byte{0xff}, std::byte{0xff}};

// Addresses are copied with memcpy, because sockaddr_storage must not be accessed as another type.
template <typename Sockaddr>
PeerAddress from(const Sockaddr& address, size_t bytes = sizeof(Sockaddr)) {
  PeerAddress peer;
  std::memcpy(&peer.storage, &address, bytes);
  peer.length = static_cast<socklen_t>(bytes);
  return peer;
}

template <typename Sockaddr>
Sockaddr to(const PeerAddress& peer) {
  Sockaddr address{};
  std::memcpy(&address, &peer.storage, std::min<size_t>(sizeof(address), peer.length));
  return address;
}

PeerAddress query_socket(int fd, int (*get)(int, sockaddr*, socklen_t*)) {
  sockaddr_storage address;
  socklen_t length = sizeof address;
  if (get(fd, reinterpret_cast<sockaddr*>(&address), &length) != 0) return {};
  return PeerAddress::copy_of(reinterpret_cast<sockaddr*>(&address), length).unmapped();
}

}  // namespace

PeerAddress PeerAddress::peer_of(int fd) { return query_socket(fd, getpeername); }
PeerAddress PeerAddress::own_of(int fd) { return query_socket(fd, getsockname); }

PeerAddress PeerAddress::copy_of(const sockaddr* address, socklen_t bytes) {
  PeerAddress peer;
  peer.length = std::min<socklen_t>(bytes, sizeof(peer.storage));
  if (peer.length > 0) std::memcpy(&peer.storage, address, peer.length);
  return peer;
}

PeerAddress PeerAddress::ip4(std::span<const std::byte, 4> address, uint16_t port) {
  sockaddr_in in{};
  in.sin_family = AF_INET;
  in.sin_port = htons(port);
  std::memcpy(&in.sin_addr, address.data(), address.size());
  return from(in);
}

PeerAddress PeerAddress::ip6(std::span<const std::byte, 16> address, uint16_t port) {
  sockaddr_in6 in6{};
  in6.sin6_family = AF_INET6;
  in6.sin6_port = htons(port);
  std::memcpy(&in6.sin6_addr, address.data(), address.size());
  return from(in6);
}

PeerAddress PeerAddress::unix_socket(std::span<const std::byte> path) {
  path = path.first(std::min(path.size(), kUnixPathBytes));
  sockaddr_un un{};
  un.sun_family = AF_UNIX;
  size_t size = 0;
  if (!path.empty() && path[0] == std::byte{0}) {
    size = path.size();
    while (size > 0 && path[size - 1] == std::byte{0}) --size;
  } else {
    size = static_cast<size_t>(std::find(path.begin(), path.end(), std::byte{0}) - path.begin());
  }
  if (size > 0) std::memcpy(un.sun_path, path.data(), size);
  // As the kernel reports it: the length of a path includes its terminator if there is room for one; an abstract name
  // has none.
  if (size > 0 && path[0] != std::byte{0}) size = std::min(size + 1, kUnixPathBytes);
  return from(un, offsetof(sockaddr_un, sun_path) + size);
}

uint16_t PeerAddress::port() const {
  if (family() == AF_INET) return ntohs(to<sockaddr_in>(*this).sin_port);
  if (family() == AF_INET6) return ntohs(to<sockaddr_in6>(*this).sin6_port);
  return 0;
}

std::span<const std::byte> PeerAddress::address_bytes() const {
  const auto at = [this](size_t offset, size_t bytes) {
    return std::as_bytes(std::span(&storage, 1)).subspan(offset, bytes);
  };
  if (family() == AF_INET) return at(offsetof(sockaddr_in, sin_addr), sizeof(in_addr));
  if (family() == AF_INET6) return at(offsetof(sockaddr_in6, sin6_addr), sizeof(in6_addr));
  if (family() != AF_UNIX || length <= offsetof(sockaddr_un, sun_path)) return {};
  return at(offsetof(sockaddr_un, sun_path), std::min(length - offsetof(sockaddr_un, sun_path), kUnixPathBytes));
}

PeerAddress PeerAddress::unmapped() const {
  if (family() != AF_INET6) return *this;
  const std::span<const std::byte> bytes = address_bytes();
  if (!std::equal(kMappedPrefix.begin(), kMappedPrefix.end(), bytes.begin())) return *this;
  return ip4(bytes.subspan<kMappedPrefix.size(), 4>(), port());
}

PeerAddress PeerAddress::mapped() const {
  if (family() != AF_INET) return *this;
  std::array<std::byte, 16> bytes;
  std::copy(kMappedPrefix.begin(), kMappedPrefix.end(), bytes.begin());
  std::ranges::copy(address_bytes(), bytes.begin() + kMappedPrefix.size());
  return ip6(bytes, port());
}

bool operator==(const PeerAddress& a, const PeerAddress& b) {
  return a.length == b.length && std::memcmp(&a.storage, &b.storage, a.length) == 0;
}

std::string text_of(const PeerAddress& address) {
  char text[INET6_ADDRSTRLEN] = "";
  const std::string port = ":" + std::to_string(address.port());
  switch (address.family()) {
    case AF_INET:
      return inet_ntop(AF_INET, address.address_bytes().data(), text, sizeof text) + port;
    case AF_INET6:
      return "[" + std::string(inet_ntop(AF_INET6, address.address_bytes().data(), text, sizeof text)) + "]" + port;
    case AF_UNIX: {
      const auto path = address.address_bytes();
      std::string name(reinterpret_cast<const char*>(path.data()), path.size());
      if (name.starts_with('\0')) name[0] = '@';
      return "unix:" + name;
    }
    default:
      return "unknown";
  }
}

}  // namespace sluice
