#include "proxy/http/proxy/http_upstream.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "proxy/http/proxy/http_services.h"
#include "proxy/http/proxy/upstream_connection.h"
#include "proxy/http/proxy/upstream_request.h"
#include "proxy/router/request_key.h"
#include "proxy/upstream/sticky_cookie.h"
#include "sluice/internal/check.h"

namespace sluice {

HttpUpstream::HttpUpstream(HttpServices& services, Balancer& balancer, SessionCache& sessions,
                           std::vector<EndpointCounters>& endpoint_counters, UpstreamHttpCounters& counters)
    : services_(services),
      balancer_(balancer),
      sessions_(sessions),
      endpoint_counters_(endpoint_counters),
      counters_(counters),
      http2_shared_{services.worker().pool(), http2_, http2_counters_},
      retry_budget_(config().retry_budget),
      endpoints_(balancer.upstream().size()),
      followed_(balancer.view().generation()) {
  http1_.limits = Http1Limits::of_responses();
  const config::Pool& pool = config().pool;
  http1_.limits.requests = pool.max_requests == 0 ? UINT32_MAX : pool.max_requests;
  http2_.streams = pool.max_streams;
  // Data that slow clients leave unread must not use up the window that all streams share.
  http2_.connection_window_bytes = static_cast<uint32_t>(
      std::clamp<uint64_t>(uint64_t{pool.max_streams} * http2_.stream_window_bytes, 1024 * 1024, INT32_MAX));
  http2_.header_list_bytes = 64 * 1024;
  http2_.header_fields = 200;
  http2_.header_fields_hard = 256;
  http2_.requests = pool.max_requests;
  // Endpoints belong to the operator: what would be a flood from any other peer may be normal for them.
  http2_.pings_burst = http2_.pings_per_10s = 10'000;
  http2_.settings_burst = http2_.settings_per_10s = 1000;
  http2_.replies_burst = http2_.replies_per_10s = 20'000;
  http2_.resets = http2_.resets_saved = 100'000;
  // Data of canceled streams still arrives, up to one window for each stream, in frames of any size.
  http2_.frames_on_closed = http2_.frames_on_closed_per_stream = http2_.stream_window_bytes;
  http2_.queued_control_frames = std::max(http2_.queued_control_frames, 8 * pool.max_streams);
}

HttpUpstream::~HttpUpstream() { SLUICE_CHECK(all_.empty()); }

void HttpUpstream::request(UpstreamRequest& caller) {
  if (state().health_generation() != seen_generation_) leave_unhealthy();
  const std::optional<uint32_t> picked = caller.attempts_left() ? choose_endpoint(caller) : std::nullopt;
  follow_endpoints();
  if (!picked) return caller.on_no_upstream(present() == 0 ? HttpEnd::kNotResolved : HttpEnd::kNoEndpoint);
  const uint32_t index = *picked;
  caller.chose(index);
  Endpoint& endpoint = endpoints_[index];
  while (!endpoint.idle.empty() && caller.may_use(*endpoint.idle.back())) {
    UpstreamConnection& connection = *endpoint.idle.back();
    if (!caller.may_repeat() && !connection.looks_alive()) {
      counters_.connections_stale.add();
      connection.drain();
      continue;
    }
    if (connection.attach(caller)) {
      counters_.connections_reused.add();
      return;
    }
  }
  for (size_t i = endpoint.shared.size(); i-- > 0;) {
    if (caller.may_use(*endpoint.shared[i]) && endpoint.shared[i]->attach(caller)) {
      counters_.connections_reused.add();
      return;
    }
  }
  if (pending_ >= config().pool.max_pending) {
    counters_.pending_refused.add();
    return caller.on_no_upstream(HttpEnd::kTooManyPending);
  }
  if (speaks_http2()) {
    for (UpstreamConnection* const connection : endpoint.connecting) {
      if (connection->waiting() < std::min(config().pool.max_streams, endpoint.streams))
        return connection->add_waiting(caller);
    }
  }
  UpstreamConnection* const connection = connect(index);
  if (!connection) return caller.on_connect_failed();
  connection->add_waiting(caller);
}

// The request's attributes are computed only if they matter.
std::optional<uint32_t> HttpUpstream::choose_endpoint(const UpstreamRequest& caller) {
  Choice choice{.tried = caller.tried(), .now_ms = services_.worker().now_ms(), .beside = caller.beside()};
  const auto& sticky = config().sticky;
  if (!balancer_.needs_hash() && !sticky) return balancer_.pick(choice);
  const RequestAttributes facts = caller.facts();
  if (balancer_.needs_hash()) choice.hash = hash_of_request(config().hash, facts);
  if (sticky && facts.fields) choice.preferred = find_sticky(*sticky, balancer_.endpoints(), *facts.fields);
  return balancer_.pick(choice);
}

bool HttpUpstream::keep_client(const RequestAttributes& request, uint32_t endpoint, Fields& response) {
  const auto& sticky = config().sticky;
  if (!sticky || find_sticky(*sticky, balancer_.endpoints(), *request.fields) == endpoint) return true;
  return add_sticky(services_.worker().pool(), *sticky, balancer_.endpoints(), endpoint, request.scheme == "https",
                    response);
}

// Connections to endpoints that became unhealthy end as soon as they have no request in progress.
void HttpUpstream::leave_unhealthy() {
  seen_generation_ = state().health_generation();
  const std::vector<UpstreamConnection*> all = all_;
  for (UpstreamConnection* const connection : all) {
    const EndpointHealth& health = state().endpoint(connection->endpoint()).health;
    if (connection->ready() && !health.healthy.load(std::memory_order_relaxed)) connection->drain();
  }
}

void HttpUpstream::follow_endpoints() {
  const EndpointView& endpoints = balancer_.view();
  if (std::exchange(followed_, endpoints.generation()) == followed_) return;
  const std::vector<UpstreamConnection*> all = all_;
  for (UpstreamConnection* const connection : all) {
    if (!endpoints.is_present(connection->endpoint())) connection->retire();
  }
}

UpstreamConnection* HttpUpstream::connect(uint32_t endpoint) {
  auto connection = std::make_unique<UpstreamConnection>(*this, endpoint, ++newest_);
  if (!connection->connect()) return nullptr;
  counters_.connections_opened.add();
  all_.push_back(connection.get());
  endpoints_[endpoint].connecting.push_back(connection.get());
  return connection.release();  // It owns itself from now on.
}

void HttpUpstream::close() {
  if (std::exchange(closed_, true)) return;
  const std::vector<UpstreamConnection*> all = all_;
  for (UpstreamConnection* const connection : all) connection->drain();
}

void HttpUpstream::shut_down() {
  closed_ = true;
  const std::vector<UpstreamConnection*> all = all_;
  for (UpstreamConnection* const connection : all) connection->shut_down();
}

void HttpUpstream::update_counters() {
  counters_.codecs.set(http1_counters_);
  counters_.codecs.set(http2_counters_);
}

}  // namespace sluice
