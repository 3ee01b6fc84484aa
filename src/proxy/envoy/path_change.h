// Envoy's rewriting of paths as `rewrite` and `redirect`.
#pragma once

#include "proxy/convert/common/prefix_change.h"
#include "proxy/envoy/message.h"
#include "proxy/envoy/route_match.h"

namespace sluice::envoy {

using convert::put_prefix_change;

/// Writes a RegexMatchAndSubstitute to `out`.
void put_regex_change(const Message& change, config::Node& out);

}  // namespace sluice::envoy
