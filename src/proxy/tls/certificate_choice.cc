#include "proxy/tls/certificate_choice.h"

#include <cstdint>

#include "absl/strings/ascii.h"

namespace sluice {

CertificateChoice::CertificateChoice(const std::vector<Certificate>& certificates) {
  std::vector<NamePattern> patterns;
  for (size_t i = 0; i < certificates.size(); ++i) {
    for (const std::string& name : certificates[i].names) patterns.push_back({name, static_cast<uint32_t>(i)});
    if (certificates[i].names == certificates[0].names) default_.push_back(i);
  }
  by_name_ = NameTable(patterns);
}

void CertificateChoice::visit(std::string_view name, absl::FunctionRef<void(size_t index)> show) const {
  std::string lowered = absl::AsciiStrToLower(name);
  if (lowered.ends_with('.')) lowered.pop_back();
  const NameTable::Match match = by_name_.find(lowered);
  for (const uint32_t i : match.exact) show(i);
  for (const uint32_t i : match.wildcard) show(i);
  if (match.best() != NameTable::kNone) return;
  for (const size_t i : default_) show(i);
}

}  // namespace sluice
