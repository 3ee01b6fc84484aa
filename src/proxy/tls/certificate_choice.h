#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "absl/functional/function_ref.h"
#include "proxy/common/name_match.h"
#include "proxy/tls/certificate_files.h"

namespace sluice {

/// Which of a listener's certificates are for the name that a client sends.
class CertificateChoice {
 public:
  CertificateChoice() = default;
  explicit CertificateChoice(const std::vector<Certificate>& certificates);

  /// Shows the indices of those for `name` in the order of preference: exact names, then wildcards; where there is
  /// none, the first certificate, and those for the same names with keys of another kind.
  void visit(std::string_view name, absl::FunctionRef<void(size_t index)> show) const;

 private:
  NameTable by_name_;              // Values are indices of certificates.
  std::vector<size_t> otherwise_;  // For names that no certificate has.
};

}  // namespace sluice
