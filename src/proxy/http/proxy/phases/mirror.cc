// Copies of requests for another upstream.
#include <cstddef>
#include <memory>

#include "proxy/http/proxy/phases/phase.h"
#include "proxy/http/proxy/phases/phase_context.h"

namespace sluice {

namespace {

class MirrorPhase final : public Phase {
 public:
  MirrorPhase(const HttpTarget& target, Random& random) : target_(target), random_(random) {}

  PhaseResult on_request(PhaseContext& exchange) override {
    for (size_t i = 0; i < target_.mirrors.size() && !exchange.tunnel(); ++i) {
      if (random_.below(100) < target_.route->mirror[i].percent) exchange.mirror(target_.mirrors[i]);
    }
    return PhaseResult::go_on();
  }

 private:
  const HttpTarget& target_;
  Random& random_;
};

}  // namespace

std::unique_ptr<Phase> make_mirror(const PhaseSetup& setup) {
  if (!setup.target || setup.target->mirrors.empty()) return nullptr;
  return std::make_unique<MirrorPhase>(*setup.target, setup.random);
}

}  // namespace sluice
