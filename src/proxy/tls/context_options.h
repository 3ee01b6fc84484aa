#pragma once

#include <openssl/ssl.h>

#include <cstdint>
#include <iterator>
#include <string>
#include <vector>

#include "proxy/config/model/config.h"
#include "sluice/internal/check.h"

namespace sluice {

/// Application protocols as on the wire, each after a length byte (RFC 7301 section 3.1).
inline std::string on_the_wire(const std::vector<std::string>& protocols) {
  std::string wire;
  for (const std::string& protocol : protocols) {
    wire.push_back(static_cast<char>(protocol.size()));
    wire += protocol;
  }
  return wire;
}

/// Sets the protocol versions, ciphers and groups of servers and clients. TLS 1.2 has only ciphers with forward secrecy
/// and authenticated encryption (RFC 9325 section 4.2). The post-quantum group comes first.
inline void set_protocols(SSL_CTX* context, config::TlsVersion least) {
  SSL_CTX_set_min_proto_version(context, least == config::TlsVersion::k13 ? TLS1_3_VERSION : TLS1_2_VERSION);
  const bool ciphers = SSL_CTX_set_strict_cipher_list(
      context,
      "ECDHE-ECDSA-AES128-GCM-SHA256:ECDHE-RSA-AES128-GCM-SHA256:ECDHE-ECDSA-AES256-GCM-SHA384:"
      "ECDHE-RSA-AES256-GCM-SHA384:ECDHE-ECDSA-CHACHA20-POLY1305:ECDHE-RSA-CHACHA20-POLY1305");
  constexpr uint16_t kGroups[] = {SSL_GROUP_X25519_MLKEM768, SSL_GROUP_X25519, SSL_GROUP_SECP256R1,
                                  SSL_GROUP_SECP384R1};
  SLUICE_CHECK(ciphers && SSL_CTX_set1_group_ids(context, kGroups, std::size(kGroups)));
}

}  // namespace sluice
