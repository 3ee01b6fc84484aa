#include "proxy/listener/worker_upstream.h"

namespace sluice {

std::optional<EndpointPlace> find_endpoint(const WorkerUpstreams& upstreams, std::string_view upstream,
                                           std::string_view address) {
  for (uint32_t i = 0; i < upstreams.size(); ++i) {
    WorkerUpstream& each = *upstreams[i];
    if (each.state->config().name != upstream) continue;
    for (const uint32_t slot : each.balancer.view().present()) {
      if (each.state->address(slot).text() == address) return EndpointPlace{i, slot};
    }
    return {};
  }
  return {};
}

}  // namespace sluice
