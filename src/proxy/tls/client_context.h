#pragma once

#include <openssl/base.h>

#include "absl/status/statusor.h"
#include "proxy/config/config.h"

namespace sluice {

/// What all TLS connections to an upstream's endpoints share. Reads the files that `tls` names; an error says which,
/// and what is wrong with it.
absl::StatusOr<bssl::UniquePtr<SSL_CTX>> make_client_context(const config::UpstreamTls& tls);

/// Settings of one connection: whom it expects at the other end.
void expect_server(SSL* ssl, const config::UpstreamTls& tls);

}  // namespace sluice
