// From the command line to a Config, for `sluice run` without a file.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "proxy/config/model/config.h"

namespace sluice::config {

/// The parsed flags of `sluice run --listen A --to B [--to C ...] [--tcp]`.
struct RunFlags {
  std::string listen;           ///< --listen
  std::vector<std::string> to;  ///< --to, once for each endpoint
  bool tcp = false;             ///< --tcp; else HTTP
};

/// Builds a configuration with one listener `main` that forwards to one upstream `main`, with defaults for everything
/// else. The result has passed validate(). On error returns InvalidArgument, which names the flag and what to write.
absl::StatusOr<Config> from_flags(const RunFlags& flags);

}  // namespace sluice::config
