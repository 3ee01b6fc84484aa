// Access logs of Envoy's as `access_log`.
#pragma once

#include "proxy/envoy/message.h"
#include "proxy/envoy/yaml_writer.h"

namespace sluice::envoy {

/// Writes the access log of `owner`, an HttpConnectionManager or a TcpProxy, to `out`.
void put_access_log(const Message& owner, config::Node& out);

}  // namespace sluice::envoy
