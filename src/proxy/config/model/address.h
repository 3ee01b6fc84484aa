// Socket addresses and address ranges as a user writes them.
#pragma once

#include <sys/socket.h>

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace sluice::config {

/// An IPv4, IPv6 or Unix socket address, ready for bind() and connect(). A value: copying copies the address.
///
///   absl::StatusOr<Address> address = Address::parse("[::1]:8080");
///   if (address.ok()) connect(fd, address->data(), address->length());
class Address {
 public:
  enum class Kind : uint8_t { kIp4, kIp6, kUnix };

  /// No address: is_set() is false. Only text() (empty) and comparison may be called on it.
  Address() = default;

  /// Parses `1.2.3.4:80`, `[::1]:80`, `unix:/run/app.sock`, `unix:@abstract`, or `localhost:80` for `127.0.0.1:80`.
  /// Port 0 is accepted. Other host names are refused: only endpoints are resolved (EndpointAddress).
  static absl::StatusOr<Address> parse(std::string_view text);

  bool is_set() const { return length_ != 0; }
  Kind kind() const;
  int family() const { return storage_.ss_family; }
  /// In host order; 0 for Unix sockets.
  uint16_t port() const;
  /// Whether it is `0.0.0.0` or `[::]`: all addresses of the machine.
  bool is_wildcard() const;
  /// A copy with another port; a Unix address, which has none, is copied unchanged.
  Address with_port(uint16_t port) const;
  /// The arguments of bind() and connect(). The pointer is valid as long as this object.
  const sockaddr* data() const { return reinterpret_cast<const sockaddr*>(&storage_); }
  socklen_t length() const { return length_; }
  /// In the form that parse() reads.
  std::string text() const;

  friend bool operator==(const Address& a, const Address& b);

 private:
  static absl::StatusOr<Address> parse_unix(std::string_view path);
  static absl::StatusOr<Address> parse_ip(std::string_view host, uint16_t port, std::string_view text);

  sockaddr_storage storage_{};
  socklen_t length_ = 0;
};

/// A range of IP addresses: `10.0.0.0/8`, `2001:db8::/32`, or one address without a length.
class Cidr {
 public:
  Cidr() = default;

  /// Bits beyond the prefix must be zero, so that a range is never wider than it reads.
  static absl::StatusOr<Cidr> parse(std::string_view text);

  /// Whether `address` (AF_INET or AF_INET6) is in the range; false for other families. An IPv4 address that arrives
  /// mapped into IPv6 (::ffff:1.2.3.4) counts as IPv4.
  bool contains(const sockaddr* address) const;
  bool contains(const Address& address) const { return address.is_set() && contains(address.data()); }
  /// As above, for an address of 4 or 16 bytes in network order; false for any other length.
  bool contains(std::span<const uint8_t> ip) const;
  /// In the form that parse() reads.
  std::string text() const;

  bool operator==(const Cidr&) const = default;

 private:
  int family_ = AF_UNSPEC;
  unsigned prefix_bits_ = 0;
  std::array<uint8_t, 16> bytes_{};  // network order; the first 4 for IPv4
};

}  // namespace sluice::config
