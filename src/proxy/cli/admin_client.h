#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "proxy/cli/admin_tls.h"
#include "proxy/cli/arguments.h"
#include "proxy/config/model/address.h"

namespace sluice {

/// A client of the admin listener of a running process. Each request has a connection of its own, and blocks.
class AdminClient {
 public:
  struct Response {
    int status = 0;
    std::string reason;
    std::string body;

    bool ok() const { return status >= 200 && status < 300; }
  };

  /// From `--address`, or the `admin` of the file that `--config` names, `--token-file`, and the options of AdminTls.
  /// The error is for the user.
  static absl::StatusOr<AdminClient> of(const Arguments& arguments);

  /// From `--against`, `--token-file` and the options of AdminTls.
  static absl::StatusOr<AdminClient> against(const Arguments& arguments);

  /// Requests a page. The path begins with `/` and has no blanks. A PUT has a body.
  absl::StatusOr<Response> request(std::string_view path, std::string_view method = "GET",
                                   std::string_view body = {}) const;

 private:
  static absl::StatusOr<AdminClient> of(const Arguments& arguments, std::string_view address_option);

  config::Address address_;
  std::shared_ptr<const AdminTls> tls_;  // Null without TLS.
  std::string authorization_;            // A field with its line end; empty without a token.
};

}  // namespace sluice
