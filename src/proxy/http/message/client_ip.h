#pragma once

#include <netinet/in.h>
#include <sys/socket.h>

#include <array>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>

#include "proxy/common/peer_address.h"

namespace sluice {

/// A client's IP address, stored compactly because each connection keeps one. An IPv4-mapped IPv6 address is stored as
/// IPv4.
class ClientIp {
 public:
  static constexpr size_t kTextBytes = INET6_ADDRSTRLEN;

  ClientIp() = default;
  explicit ClientIp(const PeerAddress& address) {
    const PeerAddress plain = address.unmapped();
    if (plain.family() != AF_INET && plain.family() != AF_INET6) return;
    const auto bytes = plain.address_bytes();
    size_ = static_cast<uint8_t>(bytes.size());
    std::memcpy(bytes_.data(), bytes.data(), bytes.size());
  }

  /// An address of 4 or 16 bytes in network order; no address for any other size.
  explicit ClientIp(std::span<const uint8_t> bytes) {
    if (bytes.size() != 4 && bytes.size() != 16) return;
    size_ = static_cast<uint8_t>(bytes.size());
    std::memcpy(bytes_.data(), bytes.data(), bytes.size());
  }

  /// The address as text, written to `room`. Empty if there is no IP address, as for Unix sockets.
  std::string_view text(std::span<char, kTextBytes> room) const;

  /// With a port in host order. Not set if there is no IP address.
  PeerAddress address(uint16_t port) const {
    const std::span<const std::byte> all = std::as_bytes(std::span(bytes_));
    if (size_ == 0) return {};
    return size_ == 4 ? PeerAddress::ip4(all.first<4>(), port) : PeerAddress::ip6(all.first<16>(), port);
  }

  /// 4 or 16 bytes in network order. Empty if there is no IP address.
  std::span<const uint8_t> bytes() const { return {bytes_.data(), size_}; }

  bool operator==(const ClientIp&) const = default;

 private:
  std::array<uint8_t, 16> bytes_{};
  uint8_t size_ = 0;
};

}  // namespace sluice
