// A configuration of HAProxy as one of Sluice.
#pragma once

#include <string>

#include "proxy/convert/common/conversion.h"
#include "proxy/convert/common/disk.h"

namespace sluice::convert::haproxy {

/// Maps the file at `path`. What is not taken over is in the findings. The result lets in no more than the source:
/// requests for which a rule has no counterpart that may keep them out get 403.
Conversion map_file(const std::string& path, const Disk& disk);

}  // namespace sluice::convert::haproxy
