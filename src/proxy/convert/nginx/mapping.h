// A configuration of nginx as one of Sluice.
#pragma once

#include <string>

#include "proxy/convert/common/conversion.h"
#include "proxy/convert/common/disk.h"

namespace sluice::convert::nginx {

/// Maps the file at `path`, with all that it includes. What is not taken over is in the findings. The result lets in no
/// more than the source: what may keep requests out and has no counterpart closes what it guards.
Conversion map_file(const std::string& path, const Disk& disk);

}  // namespace sluice::convert::nginx
