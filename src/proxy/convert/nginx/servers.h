// The `http` block.
#pragma once

#include "proxy/convert/nginx/state.h"

namespace sluice::convert::nginx {

void map_http(const Directive& http, State& state);

}  // namespace sluice::convert::nginx
