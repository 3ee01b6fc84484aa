#pragma once

#include <cstdint>

#include "proxy/config/load/diagnostics.h"
#include "proxy/config/model/config.h"

namespace sluice {

enum class CheckFor : uint8_t {
  kRun,     ///< Reports problems that keep the proxy from starting.
  kReload,  ///< The same in a process that serves, where what is read at start only does not count.
  kCheck,   ///< Also reports problems that it can serve with, such as an unusable OCSP response.
};

/// Reads the files that a valid configuration names, and checks whether its output files can be written. Shared by
/// `sluice check` and `sluice run`. All findings go to `report`, each at the position of its value.
void check_startup(const config::Config& config, CheckFor purpose, config::Report& report);

}  // namespace sluice
