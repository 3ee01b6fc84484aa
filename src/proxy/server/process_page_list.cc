// The pages of the admin listener: docs/operating/admin.md has the same list.

#include "proxy/server/endpoint_page.h"
#include "proxy/server/process_pages.h"

namespace sluice {

std::span<const ProcessPages::Page> ProcessPages::pages() {
  static constexpr Page kPages[] = {
      {"/", "this list; a page of figures for browsers", false, false, &ProcessPages::index},
      {"/healthz", "200 while all workers respond, else 503", true, false, &ProcessPages::healthz},
      {"/readyz", "200 while the process is ready, 503 once it is to stop", false, false, &ProcessPages::readyz},
      {"/metrics", "the counters, in the Prometheus text format or OpenMetrics", true, false, &ProcessPages::metrics},
      {"/latency", "percentiles of the latencies of requests, connections and handshakes", false, false,
       &ProcessPages::latency},
      {"/config", "the running configuration, without secrets", false, false, &ProcessPages::config},
      {"/generations", "the configurations in use", false, false, &ProcessPages::generations},
      {"/upstreams", "each upstream with the state of its endpoints", false, false, &ProcessPages::upstreams},
      {kEndpointPage, "an endpoint; POST state=draining or weight=3 changes it", false, true, &ProcessPages::endpoint},
      {"/connections",
       "the connections of clients, newest first; ?sort=memory&limit=20 and others: see the documentation", true, false,
       &ProcessPages::connections},
      {"/pools", "the buffer pools of each worker", true, false, &ProcessPages::pools},
      {"/memory", "the memory of the process", true, false, &ProcessPages::memory},
      {"/profile", "where processor time goes, as folded stacks: takes ?seconds=5", false, false,
       &ProcessPages::profile},
      {"/log-level", "the level of the run-time log; PUT debug, info, warning or error changes it", false, true,
       &ProcessPages::log_level},
  };
  return kPages;
}

}  // namespace sluice
