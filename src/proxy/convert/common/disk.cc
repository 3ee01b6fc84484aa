#include "proxy/convert/common/disk.h"

#include <glob.h>

#include "absl/cleanup/cleanup.h"
#include "proxy/common/read_file.h"

namespace sluice::convert {
namespace {

std::vector<std::string> paths_of(const std::string& pattern) {
  glob_t found = {};
  const absl::Cleanup free_found = [&] { globfree(&found); };
  if (glob(pattern.c_str(), 0, nullptr, &found) != 0) return {};
  return {found.gl_pathv, found.gl_pathv + found.gl_pathc};
}

}  // namespace

Disk real_disk() { return {.read = read_file, .matches = paths_of}; }

}  // namespace sluice::convert
