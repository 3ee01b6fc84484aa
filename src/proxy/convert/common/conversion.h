// What a conversion makes.
#pragma once

#include <string>
#include <vector>

#include "proxy/convert/common/finding.h"

namespace sluice::convert {

struct Conversion {
  std::string text;                ///< The configuration, as YAML; empty with an `error`.
  std::string error;               ///< Why there is none, with its place.
  bool is_known = true;            ///< False: no file has what was expected, which a finding says.
  Findings findings;               ///< Their marks name files by index.
  std::vector<std::string> files;  ///< The paths of all files that were read.
};

}  // namespace sluice::convert
