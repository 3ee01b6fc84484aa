#include "proxy/http/proxy/phases/phases.h"

#include <utility>

namespace sluice {

// Each in the file of its name.
MakePhase make_cors, make_addresses, make_rate_limits, make_maintenance, make_authentication, make_claim_rate_limits,
    make_bandwidth, make_global_rate_limits, make_forward_auth, make_ext_authz, make_redirect, make_respond,
    make_readiness, make_compression, make_rewrite, make_field_rules, make_mirror, make_buffer, make_request_id;

namespace {

struct Entry {
  MakePhase& make;
  PhaseStep request;   // Where on_request is called.
  PhaseStep response;  // Where on_response is called.
};

// All phases, in their order. Within a step they run in the order of this list.
constexpr Entry kOrder[] = {
    {make_request_id, PhaseStep::kNone, PhaseStep::kResponseFields},
    {make_cors, PhaseStep::kAdmit, PhaseStep::kResponseFields},  // First: browsers send preflights without credentials.
    {make_addresses, PhaseStep::kAdmit, PhaseStep::kNone},
    // Before passwords are checked, so that guesses are limited, and after the addresses that may not ask at all.
    {make_rate_limits, PhaseStep::kAdmit, PhaseStep::kResponseFields},
    {make_maintenance, PhaseStep::kAdmit, PhaseStep::kResponseFields},
    {make_authentication, PhaseStep::kAdmit, PhaseStep::kResponseFields},
    {make_claim_rate_limits, PhaseStep::kAdmit, PhaseStep::kResponseFields},  // The claims are known by then.
    {make_bandwidth, PhaseStep::kAdmit, PhaseStep::kNone},
    // These come last, as they may take long. What no authorizer has to judge is refused before.
    {make_global_rate_limits, PhaseStep::kAdmit, PhaseStep::kResponseFields},
    {make_forward_auth, PhaseStep::kAdmit, PhaseStep::kNone},
    {make_ext_authz, PhaseStep::kAdmit, PhaseStep::kResponseFields},
    {make_redirect, PhaseStep::kAct, PhaseStep::kNone},
    {make_respond, PhaseStep::kAct, PhaseStep::kNone},
    {make_readiness, PhaseStep::kAct, PhaseStep::kNone},
    // Before the fields are changed: the coding is negotiated with the client, whatever the upstream receives.
    {make_compression, PhaseStep::kForward, PhaseStep::kResponseBody},
    {make_rewrite, PhaseStep::kForward, PhaseStep::kNone},
    {make_field_rules, PhaseStep::kForward, PhaseStep::kResponseRules},
    {make_mirror, PhaseStep::kSend, PhaseStep::kNone},
    {make_buffer, PhaseStep::kSend, PhaseStep::kNone},  // Last: it may wait for the whole request.
};

// Exchange::next_phase_ counts up to it.
static_assert(std::size(kOrder) < 31);

}  // namespace

ListenerPhases::ListenerPhases() = default;
ListenerPhases::~ListenerPhases() = default;

void ListenerPhases::make(PhaseSetup setup, const std::vector<HttpTarget>& targets) {
  without_route_ = make_for(setup);
  for (const HttpTarget& target : targets) {
    setup.target = &target;
    by_route_.push_back(make_for(setup));
  }
}

std::unique_ptr<RoutePhases> ListenerPhases::make_for(const PhaseSetup& setup) {
  std::unique_ptr<RoutePhases> made;
  for (const Entry& entry : kOrder) {
    std::unique_ptr<Phase> phase = entry.make(setup);
    if (!phase) continue;
    if (!made) made = std::make_unique<RoutePhases>();
    for (const PhaseStep step : {entry.request, entry.response}) {
      if (step != PhaseStep::kNone) made->at_[static_cast<size_t>(step)].push_back(phase.get());
    }
    phases_.push_back(std::move(phase));
  }
  return made;
}

}  // namespace sluice
