#pragma once

#include <openssl/base.h>

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "proxy/config/model/config.h"
#include "proxy/tls/file_warning.h"
#include "proxy/tls/key_signer.h"

namespace sluice {

/// A certificate with its chain, its key and its stapled OCSP response, in BoringSSL's form.
struct Certificate {
  bssl::UniquePtr<SSL_CREDENTIAL> credential;
  /// The host names in its subjectAltName. The common name does not count (RFC 9525 section 6.3).
  std::vector<std::string> names;
  std::vector<FileWarning> warnings;
};

/// Reads the files. An error names the file and its defect. If `signer` is not null, it signs with RSA keys. An OCSP
/// response that is useless to clients is not stapled and causes a warning. Certificates outside their validity period
/// cause a warning too.
absl::StatusOr<Certificate> read_certificate(const config::TlsCertificate& files, KeySigner* signer = nullptr);

}  // namespace sluice
