// Fixed responses.
#include <memory>
#include <utility>

#include "proxy/http/message/message_rules.h"
#include "proxy/http/proxy/phases/phase.h"
#include "proxy/http/proxy/phases/phase_context.h"

namespace sluice {

namespace {

class RespondPhase final : public Phase {
 public:
  explicit RespondPhase(config::Snapshot<config::Respond> response) : response_(std::move(response)) {}

  PhaseResult on_request(PhaseContext& exchange) override {
    const auto status = static_cast<uint16_t>(response_->status);
    if (would_agree_to_tunnel(exchange, status)) return PhaseResult::fail(HttpEnd::kNotAllowed);
    return PhaseResult::respond(status, response_->content_type, response_->body);
  }

 private:
  // Whether the client would take a response with this status as an accepted tunnel. For an HTTP/1.1 Upgrade only 101
  // accepts; a server may ignore the Upgrade and respond as to any GET (RFC 9110 section 7.8). For CONNECT every 2xx
  // accepts (RFC 9110 section 9.3.6), and so it does for the extended CONNECT of HTTP/2 (RFC 8441 section 4).
  static bool would_agree_to_tunnel(PhaseContext& exchange, uint16_t status) {
    return exchange.tunnel() && status / 100 == 2 && exchange.request().method() == "CONNECT";
  }

  const config::Snapshot<config::Respond> response_;
};

}  // namespace

std::unique_ptr<Phase> make_respond(const PhaseSetup& setup) {
  const config::HttpRoute* const route = setup.route();
  if (!route || !route->respond) return nullptr;
  return std::make_unique<RespondPhase>(setup.target->route.part(*route->respond));
}

}  // namespace sluice
