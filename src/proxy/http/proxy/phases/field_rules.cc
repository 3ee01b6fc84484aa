// The configured changes of header fields: those of the listener, of the route, and of its share that is chosen.
#include <algorithm>
#include <memory>
#include <optional>

#include "proxy/http/proxy/phases/phase.h"
#include "proxy/http/proxy/phases/phase_context.h"
#include "proxy/router/field_changes.h"

namespace sluice {

namespace {

class FieldRulesPhase final : public Phase {
 public:
  explicit FieldRulesPhase(const PhaseSetup& setup)
      : http_(setup.http), route_(setup.target ? std::optional(setup.target->route) : std::nullopt) {}

  PhaseResult on_request(PhaseContext& exchange) override {
    const bool room = change(exchange, http_->request_headers, exchange.request()) &&
                      change(exchange, (*route_)->request_headers, exchange.request()) &&
                      (exchange.share() == PhaseContext::kNoShare ||
                       change(exchange, (*route_)->split[exchange.share()].request_headers, exchange.request()));
    return room ? PhaseResult::go_on() : PhaseResult::fail(HttpEnd::kBadRequest);
  }

  bool on_response(PhaseContext& exchange, Head& head, bool) override {
    return change(exchange, http_->response_headers, head) &&
           (!route_ || change(exchange, (*route_)->response_headers, head)) &&
           (exchange.share() == PhaseContext::kNoShare ||
            change(exchange, (*route_)->split[exchange.share()].response_headers, head));
  }

 private:
  static bool change(PhaseContext& exchange, const std::vector<config::FieldChange>& changes, Head& head) {
    return change_fields(exchange.pool(), changes, [&] { return exchange.attributes(); }, head.fields);
  }

  const config::Snapshot<config::Http> http_;
  const std::optional<config::Snapshot<config::HttpRoute>> route_;  // Not set: requests without a route.
};

bool changes_fields(const config::SplitTarget& part) {
  return !part.request_headers.empty() || !part.response_headers.empty();
}

}  // namespace

std::unique_ptr<Phase> make_field_rules(const PhaseSetup& setup) {
  const config::Http& http = *setup.http;
  const config::HttpRoute* const route = setup.route();
  const bool used = !http.request_headers.empty() || !http.response_headers.empty() ||
                    (route && (!route->request_headers.empty() || !route->response_headers.empty() ||
                               std::any_of(route->split.begin(), route->split.end(), changes_fields)));
  return used ? std::make_unique<FieldRulesPhase>(setup) : nullptr;
}

}  // namespace sluice
