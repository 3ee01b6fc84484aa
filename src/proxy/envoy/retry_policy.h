// Envoy's retry policies as `retry`.
#pragma once

#include "proxy/envoy/message.h"
#include "proxy/envoy/yaml_writer.h"

namespace sluice::envoy {

/// A map without keys if nothing of the policy has a counterpart.
config::Node retry_node(const Message& policy);

}  // namespace sluice::envoy
