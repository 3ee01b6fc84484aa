// What becomes of each line of HAProxy's.
#pragma once

#include "proxy/convert/haproxy/section.h"

namespace sluice::convert::haproxy {

/// Reports the lines of a section that the mapping does not look at.
void report_unmapped(const Section& section, Findings& findings);

/// Whether a line of a frontend or a backend is one that HAProxy has, as far as is known here.
bool is_known(const Line& line);

}  // namespace sluice::convert::haproxy
