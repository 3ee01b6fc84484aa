// Rewriting of host and path for the upstream.
#include "proxy/router/rewrite.h"

#include <array>
#include <memory>
#include <optional>
#include <string_view>

#include "proxy/http/proxy/phases/phase.h"
#include "proxy/http/proxy/phases/phase_context.h"

namespace sluice {

namespace {

class RewritePhase final : public Phase {
 public:
  explicit RewritePhase(const PhaseSetup& setup)
      : route_(setup.target->route), paths_(setup.http.part(setup.http->paths)) {}

  PhaseResult on_request(PhaseContext& exchange) override {
    return rewrite(exchange) ? PhaseResult::go_on() : PhaseResult::fail(HttpEnd::kBadRequest);
  }

 private:
  // Returns false if there is no new path, or no room for it.
  bool rewrite(PhaseContext& exchange) const {
    const config::Rewrite& rewrite = *route_->rewrite;
    Head& request = exchange.request();
    if (!rewrite.host.empty() &&
        !(exchange.keep_authority() && request.set(exchange.pool(), Head::Part::kAuthority, rewrite.host))) {
      return false;
    }
    if (request.path().empty() || rewrite.leaves_path()) return true;
    if (!exchange.keep_path()) return false;
    static thread_local std::array<char, Fields::kMaxBytes> scratch;
    const RequestAttributes original = exchange.attributes();
    const std::optional<std::string_view> path = changed_path(rewrite, route_->match, original, *paths_, scratch);
    return path && request.set(exchange.pool(), Head::Part::kPath, *path, request.path().substr(original.path.size()));
  }

  const config::Snapshot<config::HttpRoute> route_;
  const config::Snapshot<config::Paths> paths_;
};

}  // namespace

std::unique_ptr<Phase> make_rewrite(const PhaseSetup& setup) {
  if (!setup.target || !setup.target->route->rewrite) return nullptr;
  return std::make_unique<RewritePhase>(setup);
}

}  // namespace sluice
