#pragma once

#include <openssl/base.h>

#include <cstdint>
#include <span>

#include "absl/status/status.h"

namespace sluice {

/// Whether the OCSP response in `der` (RFC 6960 section 4.2.1) says something about `certificate` that holds at `now_s`
/// (seconds since 1970), so that clients have some use for it; an error says why they have not. Its signature is left
/// to them: they have the issuer's certificate.
absl::Status check_ocsp_response(std::span<const uint8_t> der, const X509* certificate, int64_t now_s);

}  // namespace sluice
