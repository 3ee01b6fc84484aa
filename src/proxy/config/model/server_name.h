// The name that a TLS client expects its server to have.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace sluice::config {

/// Whether `text` is an IPv4 or IPv6 address, without brackets or a port.
bool is_ip_address(const std::string& text);

/// Whether `text` is a URI rather than a host name or an address: it begins with a scheme and `://`.
bool is_uri(std::string_view text);

/// OK if a certificate can be issued for `text`: a host name without a star or a trailing dot (RFC 6066 section 3), or
/// an IP address.
absl::Status check_server_name(const std::string& text);

}  // namespace sluice::config
