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

/// The state that the contexts of all listeners share. It persists when files are reloaded.
struct TlsShared {
  std::shared_ptr<TicketKeys> ticket_keys = std::make_shared<TicketKeys>();  ///< For listeners without key files.
  KeySigner* signer = nullptr;                                               ///< Null: workers sign synchronously.
};

/// Makes the SSL_CTX that all TLS connections of a listener share, with certificates, policy and ticket keys. Reads the
/// files that `tls` names; an error names the file and its defect. Defects that are tolerable are added to `warnings`.
/// `shared` must outlive the context's connections.
absl::StatusOr<bssl::UniquePtr<SSL_CTX>> make_server_context(const std::string& listener,
                                                             const config::ListenerTls& tls, const TlsShared& shared,
                                                             std::vector<FileWarning>& warnings);

/// Identifies the rules for clients of a context that make_server_context() has made: whether they must have a
/// certificate, and from which authorities. Of two contexts of a listener, equal ones have the same rules.
std::string client_rules(SSL_CTX* context);

}  // namespace sluice
