#pragma once

#include <cstdint>

#include "proxy/config/load/diagnostics.h"
#include "proxy/config/model/config.h"

namespace sluice {

enum class CheckFor : uint8_t {
  kRun,    ///< What keeps the proxy from starting is an error.
  kCheck,  ///< And what it would serve without, such as an OCSP response that is of no use.
};

/// Reads the files that a valid configuration names, and looks whether those that are to be written can be: what
/// `sluice check` and `sluice run` both go by. All findings are reported, each at the place of its value.
void check_startup(const config::Config& config, CheckFor purpose, config::Report& report);

}  // namespace sluice
