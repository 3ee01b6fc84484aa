// The pages of the admin listener: docs/operating/admin.md has the same list.

#include "proxy/server/endpoint_page.h"
#include "proxy/server/process_pages.h"

namespace sluice {

namespace {

constexpr std::string_view kReads = "GET, HEAD", kTakesChanges = "GET, HEAD, PUT, POST",
                           kTakesDelete = "GET, HEAD, PUT, POST, DELETE";

}  // namespace

std::span<const ProcessPages::Page> ProcessPages::pages() {
  static constexpr Page kPages[] = {
      {"/", "this list; a page of figures for browsers", false, kReads, &ProcessPages::index},
      {"/healthz", "200 while all workers respond, else 503", true, kReads, &ProcessPages::healthz},
      {"/readyz", "200 while the process is ready, 503 once it is to stop", false, kReads, &ProcessPages::readyz},
      {"/metrics", "the counters, in the Prometheus text format or OpenMetrics", true, kReads, &ProcessPages::metrics},
      {"/stats/prometheus", "the same under Envoy's names, for its dashboards; takes ?usedonly", true, kReads,
       &ProcessPages::envoy_stats},
      {"/latency", "percentiles of the latencies of requests, connections and handshakes", false, kReads,
       &ProcessPages::latency},
      {"/config", "the running configuration, without secrets", false, kReads, &ProcessPages::config},
      {"/config_dump", "the resources of a control plane, in Envoy's form; ?include_eds with endpoints", false, kReads,
       &ProcessPages::config_dump},
      {"/clusters", "its clusters with the state of their addresses, in Envoy's form; takes ?format=json", false,
       kReads, &ProcessPages::clusters},
      {"/listeners", "its listeners with their addresses, in Envoy's form; takes ?format=json", false, kReads,
       &ProcessPages::listeners},
      {"/generations", "the configurations in use", false, kReads, &ProcessPages::generations},
      {"/upstreams", "each upstream with the state of its endpoints", false, kReads, &ProcessPages::upstreams},
      {kEndpointPage, "an endpoint; POST state=draining, weight=3 or add=true changes it, DELETE removes it", false,
       kTakesDelete, &ProcessPages::endpoint},
      {"/connections",
       "the connections of clients, newest first; ?sort=memory&limit=20 and others: see the documentation", true,
       kReads, &ProcessPages::connections},
      {"/pools", "the buffer pools of each worker", true, kReads, &ProcessPages::pools},
      {"/memory", "the memory of the process", true, kReads, &ProcessPages::memory},
      {"/errors", "the last warnings and errors of the log", false, kReads, &ProcessPages::errors},
      {"/profile",
       "where processor time goes, or ?type=allocations what takes memory, as folded stacks: takes ?seconds=5", false,
       kReads, &ProcessPages::profile},
      {"/log-level", "the level of the run-time log; PUT debug, info, warning or error changes it", false,
       kTakesChanges, &ProcessPages::log_level},
  };
  return kPages;
}

}  // namespace sluice
