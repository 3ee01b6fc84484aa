// The address of one end of a connection.
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace sluice {

/// A socket address, as the kernel or a PROXY header reports it. A plain value.
///
///     PeerAddress client = PeerAddress::copy_of(sockaddr, length);   // from accept() or getpeername()
///     if (client.family() == AF_INET6) client = client.unmapped();
struct PeerAddress {
  static constexpr size_t kUnixPathBytes = sizeof(sockaddr_un::sun_path);

  sockaddr_storage storage{};
  socklen_t length = 0;  ///< Valid bytes in `storage`; 0: no address.

  /// Copies `bytes` bytes, truncated to sizeof(sockaddr_storage).
  static PeerAddress copy_of(const sockaddr* address, socklen_t bytes);
  /// An IPv4 or IPv6 address: `address` in network order, `port` in host order.
  static PeerAddress ip4(std::span<const std::byte, 4> address, uint16_t port);
  static PeerAddress ip6(std::span<const std::byte, 16> address, uint16_t port);
  /// A Unix socket address. `path` is as in sun_path: it ends at its first zero byte, except that a path whose first
  /// byte is zero is an abstract name, whose trailing zero bytes are dropped. An empty path is an unnamed socket.
  /// Truncated to kUnixPathBytes.
  static PeerAddress unix_socket(std::span<const std::byte> path);
  /// The remote and the local address of a socket; not set if the kernel reports none. An IPv4 connection of a socket
  /// for both families has IPv4 addresses.
  static PeerAddress peer_of(int fd);
  static PeerAddress own_of(int fd);

  bool is_set() const { return length != 0; }
  /// The address family; AF_UNSPEC if not set.
  int family() const { return length != 0 ? storage.ss_family : AF_UNSPEC; }
  /// The port in host order; 0 if the family has no ports.
  uint16_t port() const;
  /// The address in the form that bind() and connect() take. Valid as long as this object.
  const sockaddr* data() const { return reinterpret_cast<const sockaddr*>(&storage); }
  /// The bytes of an IPv4 or IPv6 address in network order, or of sun_path; empty if not set. Valid as long as this
  /// object.
  std::span<const std::byte> address_bytes() const;

  /// The IPv4 address, if this is one mapped into IPv6 (::ffff:192.0.2.1, RFC 4291 section 2.5.5.2); else this address.
  PeerAddress unmapped() const;
  /// The inverse: an IPv4 address mapped into IPv6; any other address unchanged.
  PeerAddress mapped() const;

  /// Compares bytes, so an IPv4 address and its mapped form differ.
  friend bool operator==(const PeerAddress& a, const PeerAddress& b);
};

/// Formats the address for logs: `192.0.2.1:443`, `[2001:db8::1]:443`, `unix:/run/a.sock`, or `unknown`.
std::string text_of(const PeerAddress& address);

}  // namespace sluice
