#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "absl/functional/function_ref.h"
#include "proxy/common/name_match.h"
#include "proxy/tls/certificate_files.h"

namespace sluice {

/// Chooses among a listener's certificates by the server name that a client sends.
class CertificateChoice {
 public:
  CertificateChoice() = default;
  explicit CertificateChoice(const std::vector<Certificate>& certificates);

  /// Calls `show` with the indices of the certificates for `name`, in order of preference: exact names, then wildcards.
  /// If there are none, shows the first certificate and those for the same names with other kinds of key.
  void visit(std::string_view name, absl::FunctionRef<void(size_t index)> show) const;

 private:
  NameTable by_name_;            // Values are certificate indices.
  std::vector<size_t> default_;  // The default: certificates for names that no certificate has.
};

}  // namespace sluice
