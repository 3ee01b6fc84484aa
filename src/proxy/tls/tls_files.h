#pragma once

#include <openssl/base.h>

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "proxy/config/model/config.h"
#include "proxy/tls/file_warning.h"
#include "proxy/tls/server_context.h"

namespace sluice {

/// The contexts made from a configuration's TLS files.
struct TlsContexts {
  // Both are indexed like the configuration; null where TLS is off.
  std::vector<bssl::UniquePtr<SSL_CTX>> listeners;
  std::vector<bssl::UniquePtr<SSL_CTX>> upstreams;
  std::vector<FileWarning> warnings;  ///< For the operator; each names the listener or upstream and the file.
};

/// Reads the files of one listener or upstream and makes its context. Null if neither TLS nor ALTS with certificates is
/// on. The error names the file and its defect.
absl::StatusOr<bssl::UniquePtr<SSL_CTX>> read_tls_files_of(const config::Listener& listener, const TlsShared& shared,
                                                           std::vector<FileWarning>& warnings);
absl::StatusOr<bssl::UniquePtr<SSL_CTX>> read_tls_files_of(const config::Upstream& upstream,
                                                           std::vector<FileWarning>& warnings);

/// Reads the files of all listeners and upstreams. Fails if any file fails; the error is for the operator and names the
/// listener or upstream, the file, and its defect.
absl::StatusOr<TlsContexts> read_tls_files(const config::Config& config, const TlsShared& shared);

}  // namespace sluice
