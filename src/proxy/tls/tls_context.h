#pragma once

#include <openssl/base.h>

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "proxy/config/config.h"
#include "proxy/l4/name_match.h"

namespace sluice {

/// What all TLS connections of a listener share: certificates, policy, ticket keys. Used by all workers.
class TlsServerContext {
 public:
  /// Reads the files. An error names the file and what is wrong with it.
  static absl::StatusOr<std::unique_ptr<TlsServerContext>> make(const config::ListenerTls& config);
  ~TlsServerContext();
  SSL_CTX* get() const { return context_.get(); }

 private:
  explicit TlsServerContext(const config::ListenerTls& config);
  absl::Status load();
  static int choose_certificate(SSL* ssl, void* self);
  static int choose_protocol(SSL* ssl, const uint8_t** out, uint8_t* out_size, const uint8_t* offered, unsigned size,
                             void* self);

  const config::ListenerTls& config_;
  bssl::UniquePtr<SSL_CTX> context_;
  std::vector<bssl::UniquePtr<SSL_CREDENTIAL>> credentials_;
  std::vector<std::vector<std::string>> names_;  // Of each.
  NameTable by_name_;                            // Values are indices of credentials.
  std::string alpn_;                             // As on the wire: each with its size before it.
};

/// What all TLS connections to an upstream's endpoints share.
class TlsClientContext {
 public:
  static absl::StatusOr<std::unique_ptr<TlsClientContext>> make(const config::UpstreamTls& config);
  ~TlsClientContext();
  SSL_CTX* get() const { return context_.get(); }
  /// Settings of one connection: whom it expects at the other end.
  void prepare(SSL* ssl) const;

 private:
  explicit TlsClientContext(const config::UpstreamTls& config);
  absl::Status load();

  const config::UpstreamTls& config_;
  bssl::UniquePtr<SSL_CTX> context_;
};

/// What an operator is told when a context cannot be made: whose it is, and why.
absl::Status tls_error(std::string_view kind, std::string_view name, const absl::Status& error);

/// Reads all files that a configuration names, as starting does: for `sluice check`.
absl::Status check_tls_files(const config::Config& config);

}  // namespace sluice
