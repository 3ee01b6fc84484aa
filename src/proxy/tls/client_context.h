#pragma once

#include <openssl/base.h>

#include <vector>

#include "absl/status/statusor.h"
#include "proxy/config/model/config.h"
#include "proxy/tls/file_warning.h"

namespace sluice {

/// What all TLS connections to an upstream's endpoints share. Reads the files that `tls` names; an error says which,
/// and what is wrong with it. What can be lived with is added to `warnings`.
absl::StatusOr<bssl::UniquePtr<SSL_CTX>> make_client_context(const config::UpstreamTls& tls,
                                                             std::vector<FileWarning>& warnings);

/// Settings of one connection: whom it expects at the other end. Precondition: check_server_name() took the name.
void expect_server(SSL* ssl, const config::UpstreamTls& tls);

}  // namespace sluice
