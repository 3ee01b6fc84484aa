// ALTS, on listeners and toward endpoints.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "proxy/config/model/listener_tls.h"
#include "proxy/config/model/resolve.h"
#include "proxy/config/model/units.h"

namespace sluice::config {

/// ALTS, Google's Application Layer Transport Security. A handshaker service authenticates the peer; without one,
/// certificates do. Set either `handshaker`, or `certificates` with `peer_ca`.
struct Alts {
  EndpointAddress handshaker;  ///< The handshaker service; on Google Cloud, metadata.google.internal.:8080.
  std::vector<TlsCertificate> certificates;  ///< Presented to the peer.
  std::string peer_ca;  ///< PEM file of the authorities that must have issued the peer's certificate.
  /// Accepted peer identities: service accounts, or names in the peer's certificate. Empty: any authenticated peer.
  std::vector<std::string> target_identities;
  /// Largest frame, in bytes, that Sluice offers to read and prefers to send. 64 KiB is enough for its largest frames.
  Size max_frame_size{64 * kKiB};

  bool operator==(const Alts&) const = default;
};

/// ALTS on a listener.
struct ListenerAlts : Alts {
  Duration handshake_timeout = std::chrono::seconds(10);  ///< As for TLS.
  uint32_t max_handshakes = 2000;                         ///< As for TLS.

  bool operator==(const ListenerAlts&) const = default;
};

}  // namespace sluice::config
