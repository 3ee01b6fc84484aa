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

/// A socket address of a peer, as the kernel or a PROXY header gives it. A plain value.
///
///     PeerAddress client = PeerAddress::copy_of(sockaddr, length);   // from accept() or getpeername()
///     if (client.family() == AF_INET6) client = client.unmapped();
struct PeerAddress {
  static constexpr size_t kUnixPathBytes = sizeof(sockaddr_un::sun_path);

  sockaddr_storage storage{};
  socklen_t length = 0;  ///< Of what is valid in `storage`; 0: no address.

  /// Copies `bytes` bytes, cut off at sizeof(sockaddr_storage).
  static PeerAddress copy_of(const sockaddr* address, socklen_t bytes);
  /// `address` in network order, `port` in host order.
  static PeerAddress ip4(std::span<const std::byte, 4> address, uint16_t port);
  static PeerAddress ip6(std::span<const std::byte, 16> address, uint16_t port);
  /// `path` as in sun_path: ends at its first zero byte; one that begins with a zero byte is an abstract name, of which
  /// zero bytes at the end are no part; empty is an unnamed socket. Cut off at kUnixPathBytes.
  static PeerAddress unix_socket(std::span<const std::byte> path);
  /// The other end of a socket, and its own end; not set where the kernel names none.
  static PeerAddress peer_of(int fd);
  static PeerAddress own_of(int fd);

  bool is_set() const { return length != 0; }
  /// AF_UNSPEC when not set.
  int family() const { return length != 0 ? storage.ss_family : AF_UNSPEC; }
  /// In host order; 0 where there are no ports.
  uint16_t port() const;
  /// What bind() and connect() take; valid as long as this object.
  const sockaddr* data() const { return reinterpret_cast<const sockaddr*>(&storage); }
  /// The bytes of an IPv4 or IPv6 address in network order, or of sun_path; empty when not set. Valid as long as this.
  std::span<const std::byte> address_bytes() const;

  /// The IPv4 address where this is one mapped into IPv6 (::ffff:192.0.2.1, RFC 4291 section 2.5.5.2), else the same.
  PeerAddress unmapped() const;
  /// The opposite: an IPv4 address as an IPv6 one, any other as it is.
  PeerAddress mapped() const;

  /// Byte by byte, so an IPv4 address and its mapped form are different.
  friend bool operator==(const PeerAddress& a, const PeerAddress& b);
};

/// For logs: `192.0.2.1:443`, `[2001:db8::1]:443`, `unix:/run/a.sock`, or `unknown`.
std::string text_of(const PeerAddress& address);

}  // namespace sluice
