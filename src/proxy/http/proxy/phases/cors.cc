// CORS: responds to preflights, and adds the fields that say what pages of other origins may read.
#include <memory>
#include <string_view>

#include "proxy/http/proxy/phases/phase.h"
#include "proxy/http/proxy/phases/phase_context.h"

namespace sluice {

namespace {

class CorsPhase final : public Phase {
 public:
  explicit CorsPhase(const CorsPolicy& policy) : policy_(policy) {}

  PhaseResult on_request(PhaseContext& exchange) override {
    Head& request = exchange.request();
    Text& origin = exchange.make_state<State>(*this).origin;
    if (!request.fields.keep(exchange.pool(), request.fields.value("origin"), origin)) {
      return PhaseResult::fail(HttpEnd::kBadRequest);
    }
    if (!CorsPolicy::is_preflight(request)) return PhaseResult::go_on();
    return policy_.allows(request.fields.text(origin)) ? PhaseResult::respond(204)
                                                       : PhaseResult::fail(HttpEnd::kForbidden);
  }

  bool on_response(PhaseContext& exchange, Head& head, bool) override {
    const Head& request = exchange.request();
    const State* const state = exchange.state_of<State>(*this);
    const std::string_view origin = state ? request.fields.text(state->origin) : std::string_view();
    return CorsPolicy::is_preflight(request) ? policy_.add_to_preflight(exchange.pool(), origin, head.fields)
                                             : policy_.add_to_response(exchange.pool(), origin, head.fields);
  }

 private:
  struct State final : PhaseState {
    using PhaseState::PhaseState;
    Text origin;  // The value of Origin: a change of the request's fields may drop it.
  };

  const CorsPolicy& policy_;
};

}  // namespace

std::unique_ptr<Phase> make_cors(const PhaseSetup& setup) {
  const CorsPolicy* const policy = setup.access && setup.target ? setup.access->cors(setup.target->index) : nullptr;
  return policy ? std::make_unique<CorsPhase>(*policy) : nullptr;
}

}  // namespace sluice
