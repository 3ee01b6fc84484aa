// What the mapping of Envoy's resources could not take over.
#pragma once

#include <string>

#include "proxy/convert/common/finding.h"

namespace sluice::envoy {

using convert::Finding;
using convert::Findings;
using convert::Severity;
using convert::severity_text;

/// The resource that is being mapped, for its findings.
struct Subject {
  Findings& findings;
  std::string kind;
  std::string name;
};

}  // namespace sluice::envoy
