#pragma once

#include <openssl/base.h>

#include <string>
#include <vector>

namespace sluice {

/// The names that a certificate gives its owner, as they stand there, which may be any bytes: those of its
/// subjectAltName (URIs, DNS names, e-mail addresses, in this order). Its common name only where there is no
/// subjectAltName at all (RFC 6125 section 6.4.4): an authority that names somebody there has said all it vouches for.
std::vector<std::string> names_of(const X509* certificate);

/// The DNS names of its subjectAltName.
std::vector<std::string> dns_names_of(const X509* certificate);

/// Its common name; empty if it has none.
std::string common_name_of(const X509* certificate);

}  // namespace sluice
