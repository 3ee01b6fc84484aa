#include "proxy/http/proxy/http_upstream.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "proxy/http/proxy/concurrency_limit.h"
#include "proxy/http/proxy/http_services.h"
#include "proxy/http/proxy/upstream_caller.h"
#include "proxy/http/proxy/upstream_connection.h"
#include "proxy/router/request_key.h"
#include "proxy/upstream/sticky_cookie.h"

namespace sluice {

HttpUpstream::HttpUpstream(HttpServices& services, std::shared_ptr<WorkerUpstream> upstream)
    : UpstreamPool(services, std::move(upstream)),
      retry_budget_(config().retry_budget),
      followed_(balancer_.view().generation()) {
  if (config().adaptive_concurrency) {
    concurrency_ = std::make_unique<ConcurrencyLimit>(services_.worker(), *upstream_);
  }
}

HttpUpstream::~HttpUpstream() = default;

bool HttpUpstream::idle() const { return UpstreamPool::idle() && !(concurrency_ && concurrency_->busy()); }

void HttpUpstream::request(UpstreamCaller& caller) {
  if (state().health_generation() != seen_generation_) leave_unhealthy();
  const std::optional<uint32_t> picked = attempts_left(caller) ? choose_endpoint(caller) : std::nullopt;
  follow_endpoints();
  if (!picked) return caller.on_no_upstream(present() == 0 ? HttpEnd::kNotResolved : HttpEnd::kNoEndpoint);
  const uint32_t index = *picked;
  caller.chose(index);
  Endpoint& endpoint = endpoints_[index];
  while (!endpoint.idle.empty() && caller.may_use(endpoint.idle.back()->number())) {
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
    if (caller.may_use(endpoint.shared[i]->number()) && endpoint.shared[i]->attach(caller)) {
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
  connect(index).add_waiting(caller);
}

bool HttpUpstream::attempts_left(const UpstreamCaller& caller) const {
  return caller.limited_attempts() < config().connect_attempts;
}

// The request's attributes are computed only if they matter.
std::optional<uint32_t> HttpUpstream::choose_endpoint(const UpstreamCaller& caller) {
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

// Connections to endpoints that became unhealthy or were disabled end as soon as they have no request in progress.
void HttpUpstream::leave_unhealthy() {
  seen_generation_ = state().health_generation();
  const std::vector<UpstreamConnection*> all = all_;
  for (UpstreamConnection* const connection : all) {
    const EndpointState& endpoint = state().endpoint(connection->endpoint());
    const bool leaves = !endpoint.health.healthy.load(std::memory_order_relaxed) ||
                        endpoint.mode.load(std::memory_order_relaxed) == EndpointMode::kDisabled;
    if (connection->ready() && leaves) connection->drain();
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

UpstreamConnection& HttpUpstream::connect(uint32_t endpoint) {
  UpstreamConnection& connection = add_connection(endpoint);
  connection.connect();
  endpoints_[endpoint].connecting.push_back(&connection);
  return connection;
}

UpstreamConnection& HttpUpstream::add_connection(uint32_t endpoint) {
  auto* const connection = new UpstreamConnection(*this, endpoint, ++newest_, static_cast<uint32_t>(all_.size()));
  all_.push_back(connection);
  return *connection;
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

}  // namespace sluice
