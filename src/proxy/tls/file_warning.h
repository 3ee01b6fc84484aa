#pragma once

#include <string>

namespace sluice {

/// A defect of a file that does not prevent serving, described for the operator.
struct FileWarning {
  std::string text;
  bool fails_check = false;  ///< Whether `sluice check` fails because of it.
};

}  // namespace sluice
