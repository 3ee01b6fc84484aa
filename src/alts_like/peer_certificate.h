#pragma once

#include <openssl/base.h>

#include <string>
#include <vector>

namespace sluice {

/// The names that a certificate gives its owner: those of its subjectAltName (URIs, DNS names, e-mail addresses, in
/// this order), and behind them its common name.
std::vector<std::string> names_of(const X509* certificate);

/// Its common name; empty if it has none.
std::string common_name_of(const X509* certificate);

}  // namespace sluice
