#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "proxy/config/model/units.h"

namespace sluice::config {

/// A certificate with its key, in PEM files.
struct TlsCertificate {
  std::string chain;  ///< The certificate, followed by the intermediates that lead to the root.
  std::string key;
  std::string ocsp;  ///< A stapled OCSP response, in DER; empty: none.

  bool operator==(const TlsCertificate&) const = default;
};

/// The minimum version of TLS.
enum class TlsVersion : uint8_t { k12, k13 };

/// Whether a client must show a certificate.
enum class ClientCertificate : uint8_t { kOff, kRequest, kRequire };

/// TLS termination on a listener.
struct ListenerTls {
  /// Chosen by matching the client's server name against the names in the certificates. The first is the default.
  std::vector<TlsCertificate> certificates;
  /// Protocols in order of preference. Empty: no ALPN, or with `http`, h2 and http/1.1.
  std::vector<std::string> alpn;
  std::string client_ca;  ///< PEM file of the authorities that must have issued client certificates.
  ClientCertificate client_certificate = ClientCertificate::kOff;
  uint32_t client_depth = 4;  ///< Intermediates allowed between a client certificate and one of client_ca.
  TlsVersion min_version = TlsVersion::k12;
  /// From the first byte of the handshake to the last. Same default as `inspect_timeout`.
  Duration handshake_timeout = std::chrono::seconds(10);
  /// Concurrent handshakes over all workers; 0 = unlimited. Each takes 9 KiB while it lasts, so 2000 take 18 MiB.
  /// Beyond the limit connections are refused; above half of it handshakes that take longer than a second are ended.
  uint32_t max_handshakes = 2000;
  bool tickets = true;  ///< Whether clients get session tickets for resumption.
  /// Ticket key files of 80 bytes, in the format of nginx and Envoy: the first seals, all open. Empty: Sluice generates
  /// its own keys and renews them every day; other processes do not know them.
  std::vector<std::string> ticket_keys;

  bool operator==(const ListenerTls&) const = default;
};

}  // namespace sluice::config
