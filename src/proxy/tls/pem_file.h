#pragma once

#include <openssl/base.h>

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace sluice {

/// All certificates in a PEM file, in its order; at least one. One of them that is broken is an error.
absl::StatusOr<std::vector<bssl::UniquePtr<X509>>> read_chain(const std::string& path);

/// The first private key in a PEM file. Encrypted ones are not read.
absl::StatusOr<bssl::UniquePtr<EVP_PKEY>> read_private_key(const std::string& path);

/// Says that a file is not what was `expected`, with what BoringSSL found wrong.
absl::Status bad_file(const std::string& path, std::string_view expected);

}  // namespace sluice
