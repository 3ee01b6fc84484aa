#pragma once

#include <string>

namespace sluice {

/// What is wrong with a file that keeps nobody from serving, in words for the operator.
struct FileWarning {
  std::string text;
  bool fails_check = false;  ///< `sluice check` does not pass with it.
};

}  // namespace sluice
