// Reads and writes the PROXY protocol, versions 1 and 2: a header before the payload with the addresses of the original
// connection. "The spec" below is proxy-protocol.txt of HAProxy's documentation.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "proxy/common/peer_address.h"
#include "sluice/buffer.h"

namespace sluice {

/// The longest header of version 1 with its CRLF (the spec, section 2.1).
inline constexpr size_t kMaxProxyV1Bytes = 107;
/// The size of a version 2 header before the addresses (the spec, section 2.2).
inline constexpr size_t kProxyV2PrefixBytes = 16;
/// Bound on a header of version 2. It is ours; the protocol allows 64 KiB. 4 KiB hold a TLS client certificate's names
/// and more, and they are read before anything is known about the sender's client.
inline constexpr size_t kMaxProxyV2Bytes = kProxyV2PrefixBytes + 4096;
/// Room for a header of either version that we write. One of version 2 takes 52 bytes with IPv6 addresses, 8 bytes for
/// TLS, and 3 to 258 bytes for each of five texts.
inline constexpr size_t kMaxWrittenProxyBytes = 1350;

/// What the received bytes are.
enum class ProxyStatus : uint8_t {
  kNeedMore,   ///< A valid beginning of a header.
  kComplete,   ///< A whole header.
  kNotProxy,   ///< Neither version's signature: the payload.
  kMalformed,  ///< A signature, but the rest violates the spec or our limits (no datagrams, kMaxProxyV2Bytes).
};

struct ProxyResult {
  ProxyStatus status;
  /// kNeedMore: the size that the buffer must reach before another call is useful, always more than its present size.
  /// kComplete: the size of the header, which the caller trims. Otherwise 0.
  size_t bytes;
};

enum class ProxyVersion : uint8_t { kV1 = 1, kV2 = 2 };

/// Where a field of variable size lies. buffer.copy_out(offset, ...) reads it until the header is trimmed.
struct ProxyField {
  uint16_t offset = 0;  ///< From the beginning of the header.
  uint16_t size = 0;    ///< 0: the field was not sent, or is empty.
};

/// The contents of a header.
struct ProxyHeader {
  ProxyVersion version = ProxyVersion::kV1;
  /// The addresses of the original connection, of the same family. Both are unset if the addresses of this connection
  /// count: for health checks (LOCAL), and for addresses that the sender could not express (UNKNOWN, AF_UNSPEC).
  PeerAddress source;
  PeerAddress destination;
  // Optional fields of version 2 (the spec, sections 2.2.1, 2.2.2 and 2.2.5). Their bytes come from the sender's
  // client; only their size is validated.
  ProxyField alpn;
  ProxyField authority;
  ProxyField unique_id;
};

/// Reads the PROXY header at the beginning of `buffer`, which may be split anywhere. The buffer is not changed.
/// `header` is meaningful only after kComplete. A status other than kNeedMore does not change when more bytes follow.
///
/// A CRC-32C in version 2 is verified. The body of LOCAL and AF_UNSPEC headers is skipped unread, as the spec requires.
///
/// The configuration must determine whether a header is expected, because a sender of headers can claim any address
/// (the spec, section 5).
///
///     ProxyHeader header;
///     const ProxyResult result = parse_proxy_header(received, header);
///     if (result.status == ProxyStatus::kComplete) received.trim_front(result.bytes);
ProxyResult parse_proxy_header(const Buffer& buffer, ProxyHeader& header);

/// The fields of a version 2 header about the client's TLS connection (the spec, section 2.2.6). Texts of more than
/// kMaxTextBytes are omitted.
struct ProxyTls {
  static constexpr size_t kMaxTextBytes = 255;
  std::string_view version;         ///< TLSv1.3
  std::string_view cipher;          ///< TLS_AES_128_GCM_SHA256
  std::string_view authority;       ///< The server name that the client sent, or empty.
  std::string_view alpn;            ///< The application protocol agreed on, or empty.
  std::string_view common_name;     ///< The common name of the client's certificate, or empty.
  bool client_certificate = false;  ///< The client presented a certificate, which was verified.
  bool in_this_connection = false;  ///< It did so in this connection, not only in the one that this one resumes.
};

/// Writes a header for a connection between these addresses into `to` and returns its size. It cannot fail: if an
/// address is not set or not an IP address, the header omits both (UNKNOWN in version 1, LOCAL in version 2), and the
/// receiver uses the addresses of its connection. Version 2 could express Unix sockets, but HAProxy resets connections
/// that begin so; they are omitted too. If both addresses are IPv4, or IPv4 mapped into IPv6, both are written as IPv4;
/// an IPv4 address beside a true IPv6 address is written mapped. The caller must send the header before anything else.
size_t write_proxy_v1(std::span<std::byte, kMaxWrittenProxyBytes> to, const PeerAddress& source,
                      const PeerAddress& destination);
size_t write_proxy_v2(std::span<std::byte, kMaxWrittenProxyBytes> to, const PeerAddress& source,
                      const PeerAddress& destination, const ProxyTls* tls = nullptr);

}  // namespace sluice
