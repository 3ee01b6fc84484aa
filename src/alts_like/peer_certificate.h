#pragma once

#include <openssl/base.h>

#include <string>
#include <vector>

namespace sluice {

/// The names in a certificate's subjectAltName: URIs, DNS names, e-mail addresses, in this order. They are unescaped
/// and may contain any bytes. The common name counts only if there is no subjectAltName at all (RFC 6125 section
/// 6.4.4): an authority that uses subjectAltName vouches for nothing else.
std::vector<std::string> names_of(const X509* certificate);

/// The DNS names in a certificate's subjectAltName, and the URIs.
std::vector<std::string> dns_names_of(const X509* certificate);
std::vector<std::string> uris_of(const X509* certificate);

/// A certificate's common name; empty if it has none.
std::string common_name_of(const X509* certificate);

}  // namespace sluice
