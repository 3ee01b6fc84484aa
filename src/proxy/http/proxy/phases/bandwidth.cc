// The limits of bandwidth of the listener and of the route. This phase finds the keys of a request, before its fields
// are changed and after its token is checked; the bodies pace themselves (BodyPacer).
#include "proxy/rate_limit/bandwidth.h"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "proxy/http/proxy/phases/phase.h"
#include "proxy/http/proxy/phases/phase_context.h"
#include "proxy/http/proxy/phases/rate_key_place.h"
#include "proxy/rate_limit/body_pacer.h"

namespace sluice {

namespace {

class BandwidthPhase final : public Phase {
 public:
  struct Limit {
    WorkerRateLimit limit;
    RateKeyPlace place;
  };
  using Limits = std::vector<Limit>;

  BandwidthPhase(Limits request, Limits response) : request_(std::move(request)), response_(std::move(response)) {}

  PhaseResult on_request(PhaseContext& exchange) override {
    const RequestAttributes facts = exchange.attributes();
    State& state = exchange.make_state<State>(*this);
    if (!request_.empty() && !exchange.request_ended()) {
      state.made.request = exchange.pace_request(limits_of(request_, facts));
    }
    if (!response_.empty()) state.made.response = exchange.pace_response(limits_of(response_, facts));
    return PhaseResult::go_on();
  }

 private:
  struct State final : PhaseState {
    using PhaseState::PhaseState;
    BodyPacers* pacers() override { return &made; }
    BodyPacers made;
  };

  static Bandwidth limits_of(const Limits& limits, const RequestAttributes& facts) {
    Bandwidth made;
    for (const Limit& each : limits) {
      made.add(each.limit, rate_key_of_request(RateSecret::of_process(), each.limit.limiter->key(), each.place, facts));
    }
    return made;
  }

  const Limits request_, response_;
};

BandwidthPhase::Limits limits_named(const PhaseSetup& setup, const std::vector<std::string>& listener,
                                    const std::vector<std::string>* route) {
  BandwidthPhase::Limits limits;
  for (WorkerRateLimit& limit : rate_limits_named(*setup.rate_limits, names_of_both(listener, route))) {
    RateKeyPlace place = place_of_route(setup, limit.limiter->key());
    limits.push_back({std::move(limit), std::move(place)});
  }
  return limits;
}

}  // namespace

std::unique_ptr<Phase> make_bandwidth(const PhaseSetup& setup) {
  if (!setup.rate_limits) return nullptr;
  const config::HttpRoute* const route = setup.route();
  auto request = limits_named(setup, setup.http->request_bandwidth, route ? &route->request_bandwidth : nullptr);
  auto response = limits_named(setup, setup.http->response_bandwidth, route ? &route->response_bandwidth : nullptr);
  if (request.empty() && response.empty()) return nullptr;
  return std::make_unique<BandwidthPhase>(std::move(request), std::move(response));
}

}  // namespace sluice
