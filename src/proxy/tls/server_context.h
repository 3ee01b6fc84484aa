#pragma once

#include <openssl/base.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "proxy/config/model/config.h"
#include "proxy/tls/file_warning.h"
#include "proxy/tls/key_signer.h"
#include "proxy/tls/ticket_keys.h"

namespace sluice {

/// What the contexts of all listeners share, and keep when files are read again.
struct TlsShared {
  std::shared_ptr<TicketKeys> ticket_keys = std::make_shared<TicketKeys>();  ///< Where no files are named.
  KeySigner* signer = nullptr;                                               ///< Null: keys are used on the spot.
};

/// What all TLS connections of a listener share: certificates, policy, ticket keys. Reads the files that `tls` names;
/// an error says which, and what is wrong with it. What can be lived with is added to `warnings`. `shared` must outlive
/// the context's connections.
absl::StatusOr<bssl::UniquePtr<SSL_CTX>> make_server_context(const std::string& listener,
                                                             const config::ListenerTls& tls, const TlsShared& shared,
                                                             std::vector<FileWarning>& warnings);

}  // namespace sluice
