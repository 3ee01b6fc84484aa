// The `stream` block.
#pragma once

#include "proxy/convert/nginx/state.h"

namespace sluice::convert::nginx {

void map_stream(const Directive& stream, State& state);

}  // namespace sluice::convert::nginx
