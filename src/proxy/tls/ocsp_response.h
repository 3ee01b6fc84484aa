#pragma once

#include <openssl/base.h>

#include <cstdint>
#include <span>

#include "absl/status/status.h"

namespace sluice {

/// Checks that the OCSP response in `der` (RFC 6960 section 4.2.1) is about `certificate` and valid at `now_s` (seconds
/// since 1970), so that it is useful to clients. An error gives the reason why it is not. The signature is not checked:
/// clients do that, for they have the issuer's certificate.
absl::Status check_ocsp_response(std::span<const uint8_t> der, const X509* certificate, int64_t now_s);

}  // namespace sluice
