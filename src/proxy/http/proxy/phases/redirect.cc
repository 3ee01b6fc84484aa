// Redirects.
#include <array>
#include <memory>
#include <optional>
#include <string_view>

#include "proxy/http/proxy/phases/phase.h"
#include "proxy/http/proxy/phases/phase_context.h"
#include "proxy/router/rewrite.h"

namespace sluice {

namespace {

class RedirectPhase final : public Phase {
 public:
  explicit RedirectPhase(const PhaseSetup& setup)
      : route_(setup.target->route), paths_(setup.http.part(setup.http->paths)) {}

  PhaseResult on_request(PhaseContext& exchange) override {
    static thread_local std::array<char, Fields::kMaxBytes> scratch;
    const std::optional<std::string_view> location =
        redirect_location(*route_->redirect, route_->match, exchange.attributes(), *paths_, scratch);
    if (!location) return PhaseResult::fail(HttpEnd::kBadRequest);
    return PhaseResult::respond(static_cast<uint16_t>(route_->redirect->status), {}, {}, *location);
  }

 private:
  const config::Snapshot<config::HttpRoute> route_;
  const config::Snapshot<config::Paths> paths_;
};

}  // namespace

std::unique_ptr<Phase> make_redirect(const PhaseSetup& setup) {
  if (!setup.target || !setup.target->route->redirect) return nullptr;
  return std::make_unique<RedirectPhase>(setup);
}

}  // namespace sluice
