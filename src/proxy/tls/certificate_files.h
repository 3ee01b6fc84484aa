#pragma once

#include <openssl/base.h>

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "proxy/config/model/config.h"
#include "proxy/tls/file_warning.h"
#include "proxy/tls/key_signer.h"

namespace sluice {

/// A certificate with its chain, its key and its stapled OCSP response, as BoringSSL wants them.
struct Certificate {
  bssl::UniquePtr<SSL_CREDENTIAL> credential;
  /// The host names it is for: those of its subjectAltName (RFC 9525 section 6.3: the common name does not count).
  std::vector<std::string> names;
  std::vector<FileWarning> warnings;
};

/// Reads the files. An error names the file and what is wrong with it. RSA keys are left to `signer`, if there is one.
/// An OCSP response that is of no use to clients is not stapled, and warned of; so are certificates out of their time.
absl::StatusOr<Certificate> read_certificate(const config::TlsCertificate& files, KeySigner* signer = nullptr);

}  // namespace sluice
