#include "proxy/auth/listener_access.h"

#include <time.h>

#include <algorithm>

#include "sluice/internal/check.h"

namespace sluice {
namespace {

constexpr std::string_view kRealm = "sluice";

int64_t wall_clock_s() {
  timespec now;
  clock_gettime(CLOCK_REALTIME_COARSE, &now);
  return now.tv_sec;
}

bool holds(const std::vector<config::Cidr>& ranges, const ClientIp& client) {
  return std::any_of(ranges.begin(), ranges.end(),
                     [&](const config::Cidr& range) { return range.contains(client.bytes()); });
}

}  // namespace

bool admits_address(const std::vector<config::Cidr>& allow, const std::vector<config::Cidr>& deny,
                    const ClientIp& client) {
  return !holds(deny, client) && (allow.empty() || holds(allow, client));
}

std::unique_ptr<ListenerAccess> ListenerAccess::make(const config::Snapshot<config::Http>& http, SharedAuth& shared) {
  const auto has_rules = [](const config::HttpRoute& route) {
    return !route.allow.empty() || !route.deny.empty() || route.auth || route.cors;
  };
  if (http->allow.empty() && http->deny.empty() && std::none_of(http->routes.begin(), http->routes.end(), has_rules)) {
    return nullptr;
  }
  return std::make_unique<ListenerAccess>(http, shared);
}

ListenerAccess::ListenerAccess(const config::Snapshot<config::Http>& http, SharedAuth& shared)
    : http_(http), shared_(shared) {
  for (size_t i = 0; i < http->routes.size(); ++i) {
    const config::HttpRoute& route = http->routes[i];
    cors_.push_back(route.cors ? std::make_unique<CorsPolicy>(*route.cors) : nullptr);
    gate_of_route_.push_back(nullptr);
    if (!route.auth) continue;
    const auto same =
        std::find_if(gates_.begin(), gates_.end(), [&](const Gate& g) { return *g.config == *route.auth; });
    if (same != gates_.end()) {
      gate_of_route_.back() = &*same;
      continue;
    }
    Gate& made = gates_.emplace_back(Gate{http.part(*route.auth), i, nullptr, nullptr});
    gate_of_route_.back() = &made;
    if (route.auth->basic)
      made.basic = std::make_unique<BasicAuthenticator>(*route.auth->basic, shared.password_threads());
    if (route.auth->jwt) made.jwt = std::make_unique<JwtAuthenticator>(http.part(*route.auth->jwt), kRealm);
  }
}

bool ListenerAccess::admits(const config::HttpRoute* route, const ClientIp& client) const {
  return admits_address(http_->allow, http_->deny, client) &&
         (!route || admits_address(route->allow, route->deny, client));
}

void ListenerAccess::refresh() {
  const uint32_t generation = shared_.generation();
  if (generation == generation_) return;
  files_ = shared_.take();
  generation_ = generation;
  for (Gate& gate : gates_) {
    const AuthFiles& files = (*files_)[gate.route];
    if (gate.jwt) gate.jwt->use(*files.keys);
    if (gate.basic) gate.basic->use(*files.users);
  }
}

ListenerAccess::Proof ListenerAccess::check(uint32_t route, ChunkPool& pool, Head& request) {
  Gate* const gate = this->gate(route);
  if (!gate) return {};
  refresh();
  SLUICE_CHECK(generation_ != 0);
  Proof proof;
  proof.verdict = gate->jwt ? gate->jwt->check(pool, request.fields, wall_clock_s())
                            : gate->basic->check(request.fields, proof.check);
  if (proof.verdict == AuthResult::kRefused) proof.challenge = challenge(route);
  return proof;
}

std::string_view ListenerAccess::user(uint32_t route, const Head& request, NameRoom& room) const {
  const Gate* const gate = this->gate(route);
  if (!gate) return {};
  return gate->jwt ? gate->jwt->subject() : BasicAuthenticator::name_of(request.fields, room);
}

std::string_view ListenerAccess::challenge(uint32_t route) const {
  const Gate& gate = *this->gate(route);
  return gate.jwt ? gate.jwt->challenge() : gate.basic->challenge();
}

void ListenerAccess::remove_credentials(uint32_t route, Head& request) const {
  const Gate* const gate = this->gate(route);
  if (!gate || gate->config->forward) return;
  request.fields.remove(gate->jwt ? std::string_view(gate->config->jwt->header.text()) : "authorization");
}

}  // namespace sluice
