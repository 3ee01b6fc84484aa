// Readiness: what load balancers ask for to decide whether this process gets new connections.
#include <atomic>
#include <memory>
#include <string_view>

#include "proxy/http/proxy/phases/phase.h"
#include "proxy/http/proxy/phases/phase_context.h"

namespace sluice {

namespace {

constexpr std::string_view kPlainText = "text/plain; charset=utf-8";

class ReadinessPhase final : public Phase {
 public:
  explicit ReadinessPhase(const std::atomic<bool>* stopping) : stopping_(stopping) {}

  PhaseResult on_request(PhaseContext& exchange) override {
    // A client would take a 2xx as an accepted tunnel (RFC 9110 section 9.3.6).
    if (exchange.request().method() == "CONNECT") return PhaseResult::fail(HttpEnd::kNotAllowed);
    const bool stopping = stopping_ && stopping_->load(std::memory_order_relaxed);
    return stopping ? PhaseResult::respond(503, kPlainText, "draining\n")
                    : PhaseResult::respond(200, kPlainText, "ready\n");
  }

 private:
  const std::atomic<bool>* const stopping_;
};

}  // namespace

std::unique_ptr<Phase> make_readiness(const PhaseSetup& setup) {
  const config::HttpRoute* const route = setup.route();
  return route && route->readiness ? std::make_unique<ReadinessPhase>(setup.stopping) : nullptr;
}

}  // namespace sluice
