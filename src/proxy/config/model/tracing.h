#pragma once

#include <string>

#include "proxy/config/model/log_condition.h"

namespace sluice::config {

/// Spans of the requests of a listener, for an OpenTelemetry collector.
struct Tracing {
  std::string to;                   ///< Name of the upstream: the collector, by OTLP over HTTP.
  std::string path = "/v1/traces";  ///< As the OTLP specification has it.
  Share sample;                     ///< The share of the traces that begin here that are recorded.
  std::string service_name = "sluice";

  bool operator==(const Tracing&) const = default;
};

}  // namespace sluice::config
