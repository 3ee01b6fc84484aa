#pragma once

#include <openssl/ssl.h>

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "proxy/cli/arguments.h"
#include "proxy/config/model/config.h"

namespace sluice {

/// How the client of the admin listener speaks TLS, and what it expects of the server's certificate: that it comes from
/// `--ca` and is for the address or `--server-name`, or, with a configuration and without `--ca`, that it is one of
/// those that the configuration names. The errors are for the user.
class AdminTls {
 public:
  /// From the options, and the `admin` of the configuration if that is not null. Null if TLS is not used.
  static absl::StatusOr<std::shared_ptr<const AdminTls>> of(const Arguments& arguments, const config::Admin* admin,
                                                            const config::Address& address);

  /// Shakes hands on a connected socket, which outlives the result, and checks the server's certificate.
  absl::StatusOr<bssl::UniquePtr<SSL>> connect(int fd) const;
  /// Describes the error of a call that returned `result`.
  static absl::Status error_of(const SSL* ssl, int result);

 private:
  absl::Status check_certificate(const SSL* ssl) const;

  config::UpstreamTls options_;
  bssl::UniquePtr<SSL_CTX> context_;
  std::vector<bssl::UniquePtr<X509>> expected_;  // Without `--ca`.
};

}  // namespace sluice
