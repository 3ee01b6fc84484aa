#pragma once

#include <openssl/base.h>

#include <vector>

#include "absl/status/statusor.h"
#include "proxy/config/model/config.h"
#include "proxy/tls/file_warning.h"

namespace sluice {

/// Makes the SSL_CTX that all TLS connections to an upstream's endpoints share. Reads the files that `tls` names; an
/// error names the file and its defect. Defects that are tolerable are added to `warnings`.
absl::StatusOr<bssl::UniquePtr<SSL_CTX>> make_client_context(const config::UpstreamTls& tls,
                                                             std::vector<FileWarning>& warnings);

/// Sets the server identity that one connection expects. `tls` outlives the handshake. Precondition: the names are
/// valid.
void expect_server(SSL* ssl, const config::UpstreamTls& tls);

}  // namespace sluice
