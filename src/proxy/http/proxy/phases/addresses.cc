// The addresses of clients that the listener and the route admit.
#include <memory>

#include "proxy/http/proxy/phases/phase.h"
#include "proxy/http/proxy/phases/phase_context.h"

namespace sluice {

namespace {

class AddressesPhase final : public Phase {
 public:
  explicit AddressesPhase(const ListenerAccess& access) : access_(access) {}

  PhaseResult on_request(PhaseContext& exchange) override {
    return access_.admits(exchange.route(), *exchange.attributes().client) ? PhaseResult::go_on()
                                                                           : PhaseResult::fail(HttpEnd::kForbidden);
  }

 private:
  const ListenerAccess& access_;
};

}  // namespace

std::unique_ptr<Phase> make_addresses(const PhaseSetup& setup) {
  const config::HttpRoute* const route = setup.route();
  const bool used = !setup.http->allow.empty() || !setup.http->deny.empty() ||
                    (route && (!route->allow.empty() || !route->deny.empty()));
  return used && setup.access ? std::make_unique<AddressesPhase>(*setup.access) : nullptr;
}

}  // namespace sluice
