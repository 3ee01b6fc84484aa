// The PROXY protocol, versions 1 and 2: a header before the payload that says who is really connected to whom.
// "The spec" below is proxy-protocol.txt of HAProxy's documentation.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "buffer/buffer.h"
#include "proxy/common/peer_address.h"

namespace sluice {

/// Longest header of version 1 with its CRLF (the spec, section 2.1).
inline constexpr size_t kMaxProxyV1Bytes = 107;
/// Version 2 before the addresses (the spec, section 2.2).
inline constexpr size_t kProxyV2PrefixBytes = 16;
/// Bound on a header of version 2. Ours: the protocol would allow 64 KiB; 4 KiB hold a TLS client certificate's names
/// and more, and they are read before anything is known about the sender's client.
inline constexpr size_t kMaxProxyV2Bytes = kProxyV2PrefixBytes + 4096;
/// Room for a header of either version as it is written here: one of version 2 takes 52 bytes with IPv6 addresses, 8 to
/// say that there is TLS, and for each of five texts 3 and up to 255 more.
inline constexpr size_t kMaxWrittenProxyBytes = 1350;

/// What the bytes so far are.
enum class ProxyStatus : uint8_t {
  kNeedMore,   ///< The beginning of a header, as far as one can tell.
  kComplete,   ///< A whole header.
  kNotProxy,   ///< The signature of neither version: payload.
  kMalformed,  ///< A signature, but what follows is not allowed, or not by us (datagrams, kMaxProxyV2Bytes).
};

struct ProxyResult {
  ProxyStatus status;
  /// kNeedMore: the size that the buffer must have before another call is worth it, always more than it has.
  /// kComplete: the size of the header, which the caller trims. Otherwise 0.
  size_t bytes;
};

enum class ProxyVersion : uint8_t { kV1 = 1, kV2 = 2 };

/// Where a field of variable size lies: buffer.copy_out(offset, ...) reads it as long as the header was not trimmed.
struct ProxyField {
  uint16_t offset = 0;  ///< From the beginning of the header.
  uint16_t size = 0;    ///< 0: the field was not sent, or is empty.
};

/// What a header says.
struct ProxyHeader {
  ProxyVersion version = ProxyVersion::kV1;
  /// Both ends of the original connection, of the same family. Both are not set where the connection's own addresses
  /// count: health checks (LOCAL), and what the sender could not express (UNKNOWN, AF_UNSPEC).
  PeerAddress source;
  PeerAddress destination;
  // Optional fields of version 2 (the spec, sections 2.2.1, 2.2.2 and 2.2.5). The bytes in them are as the sender's
  // client sent them: nothing is validated but the size.
  ProxyField alpn;
  ProxyField authority;
  ProxyField unique_id;
};

/// Reads the PROXY header at the beginning of `buffer`, which may be split anywhere. Nothing is taken from the buffer;
/// `header` has meaningful contents after kComplete only. A verdict other than kNeedMore does not change when more
/// bytes follow.
///
/// A CRC-32C in version 2 is verified. The body of LOCAL and AF_UNSPEC headers is stepped over unread, as the spec
/// asks.
///
/// Whether a header is expected must be known from the configuration: who may send one may claim any address (the spec,
/// section 5).
///
///     ProxyHeader header;
///     const ProxyResult result = parse_proxy_header(received, header);
///     if (result.status == ProxyStatus::kComplete) received.trim_front(result.bytes);
ProxyResult parse_proxy_header(const Buffer& buffer, ProxyHeader& header);

/// What a header of version 2 says of the TLS that was spoken with the client (the spec, section 2.2.6). Texts of more
/// than kMaxTextBytes are left out.
struct ProxyTls {
  static constexpr size_t kMaxTextBytes = 255;
  std::string_view version;         ///< TLSv1.3
  std::string_view cipher;          ///< TLS_AES_128_GCM_SHA256
  std::string_view authority;       ///< The name that the client asked for; empty: none. So below.
  std::string_view alpn;            ///< What was agreed on.
  std::string_view common_name;     ///< Of the client's certificate.
  bool client_certificate = false;  ///< It showed one, which was verified:
  bool in_this_connection = false;  ///< here, and not in the one that the session was resumed from.
};

/// Writes a header for a connection between these addresses into `to`; returns its size. It cannot fail: when one of
/// them is not set or not an IP address, the header leaves both out (UNKNOWN in version 1, LOCAL in version 2), and the
/// receiver goes by the connection it sees. So do Unix sockets, which version 2 could express: HAProxy resets
/// connections that begin so. IPv4 addresses mapped into IPv6 are written as IPv4 where both are IPv4, and an IPv4
/// address beside a true IPv6 one as mapped. The caller sends the header at once, before anything else.
size_t write_proxy_v1(std::span<std::byte, kMaxWrittenProxyBytes> to, const PeerAddress& source,
                      const PeerAddress& destination);
size_t write_proxy_v2(std::span<std::byte, kMaxWrittenProxyBytes> to, const PeerAddress& source,
                      const PeerAddress& destination, const ProxyTls* tls = nullptr);

}  // namespace sluice
