#pragma once

#include <openssl/base.h>

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace sluice {

/// Reads all certificates in a PEM file, in file order, at least one. A malformed certificate is an error.
absl::StatusOr<std::vector<bssl::UniquePtr<X509>>> read_chain(const std::string& path);

/// Reads the first private key in a PEM file. Encrypted keys are not supported.
absl::StatusOr<bssl::UniquePtr<EVP_PKEY>> read_private_key(const std::string& path);

/// The error for a file that is not what was `expected`, with the reason in BoringSSL's error queue.
absl::Status bad_file(const std::string& path, std::string_view expected);

}  // namespace sluice
