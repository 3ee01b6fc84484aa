// From the command line to a Config, for `sluice run` without a file.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "proxy/config/model/config.h"

namespace sluice::config {

/// `sluice run --listen A --to B [--to C ...] [--tcp]`, as the parser of the command line found it.
struct RunFlags {
  std::string listen;           ///< --listen
  std::vector<std::string> to;  ///< --to, once for each endpoint
  bool tcp = false;             ///< --tcp; else HTTP
};

/// One listener `main` that forwards to one upstream `main`, all else by default. InvalidArgument names the flag and
/// what to write; it has passed validate(), like a file.
absl::StatusOr<Config> from_flags(const RunFlags& flags);

}  // namespace sluice::config
