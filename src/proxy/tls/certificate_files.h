#pragma once

#include <openssl/base.h>

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "proxy/config/config.h"
#include "proxy/tls/key_signer.h"

namespace sluice {

/// A certificate with its chain, its key and its stapled OCSP response, as BoringSSL wants them.
struct Certificate {
  bssl::UniquePtr<SSL_CREDENTIAL> credential;
  /// The host names it is for: those of its subjectAltName (RFC 9525 section 6.3: the common name does not count).
  std::vector<std::string> names;
};

/// Reads the files. An error names the file and what is wrong with it. RSA keys are left to `signer`, if there is one.
absl::StatusOr<Certificate> read_certificate(const config::TlsCertificate& files, KeySigner* signer = nullptr);

absl::StatusOr<std::string> read_file(const std::string& path);

/// Says that a file is not what was `expected`, with what BoringSSL found wrong.
absl::Status bad_file(const std::string& path, std::string_view expected);

}  // namespace sluice
