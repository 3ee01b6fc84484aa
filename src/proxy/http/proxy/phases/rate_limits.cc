// The rate limits of the listener and of the route, which refuse requests or make them wait. Those that count by a
// claim of the client's token come after the phase that checks it, all others before, so that they limit attempts at
// passwords, too.
#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "net/timer_wheel.h"
#include "proxy/http/proxy/phases/phase.h"
#include "proxy/http/proxy/phases/phase_context.h"
#include "proxy/http/proxy/phases/rate_key_place.h"
#include "proxy/rate_limit/rate_limiter.h"

namespace sluice {

namespace {

class RateLimitsPhase final : public Phase {
 public:
  struct Limit {
    WorkerRateLimit limit;
    RateKeyPlace place;
    /// The values of RateLimit-Policy and, apart from the seconds at its end, of RateLimit, as
    /// draft-ietf-httpapi-ratelimit-headers-10 defines them.
    std::string policy, remaining;
  };

  explicit RateLimitsPhase(std::vector<Limit> limits) : limits_(std::move(limits)) {}

  PhaseResult on_request(PhaseContext& exchange) override {
    const RequestAttributes facts = exchange.attributes();
    refused_by_ = nullptr;
    uint64_t longest_ns = 0;
    for (const Limit& each : limits_) {
      const RateLimiter& limiter = *each.limit.limiter;
      const RateDecision decision = each.limit.check(
          rate_key_of_request(RateSecret::of_process(), limiter.key(), each.place, facts), exchange.now_us());
      if (decision.refused) {
        refused_by_ = &each;
        wait_ns_ = decision.wait_ns;
        return PhaseResult::fail(HttpEnd::kRateLimited, static_cast<uint16_t>(limiter.config().status));
      }
      longest_ns = std::max(longest_ns, decision.wait_ns);
    }
    if (longest_ns == 0) return PhaseResult::go_on();
    return exchange.make_state<Held>(*this, exchange).begin(longest_ns);
  }

  // The response to a refused request is made before this phase sees another request, so it needs no state of its own.
  bool on_response(PhaseContext& exchange, Head& head, bool) override {
    const Limit* const by = std::exchange(refused_by_, nullptr);
    if (!by || exchange.end() != HttpEnd::kRateLimited) return true;
    std::array<char, 128> text;
    const size_t before = by->remaining.copy(text.data(), text.size() - 24);
    char* const begin = text.data() + before;
    char* const end = std::to_chars(begin, text.data() + text.size(), whole_seconds(wait_ns_)).ptr;
    return head.fields.add(exchange.pool(), "retry-after", {begin, end}) &&
           head.fields.add(exchange.pool(), "ratelimit-policy", by->policy) &&
           head.fields.add(exchange.pool(), "ratelimit", {text.data(), end});
  }

 private:
  // A request that waits until it conforms.
  struct Held final : PhaseState {
    Held(const Phase& owner, PhaseContext& waiting)
        : PhaseState(owner),
          exchange(waiting),
          timer([](void* self) { static_cast<Held*>(self)->exchange.resume(PhaseResult::go_on()); }, this) {}

    PhaseResult begin(uint64_t wait_ns) {
      exchange.timers().arm(timer, rate_turn_ms(exchange.now_us(), wait_ns));
      exchange.hold();
      return PhaseResult::wait();
    }
    void stop() override { timer.cancel(); }

    PhaseContext& exchange;
    Timer timer;
  };

  const std::vector<Limit> limits_;
  const Limit* refused_by_ = nullptr;
  uint64_t wait_ns_ = 0;
};

RateLimitsPhase::Limit limit_of_route(const PhaseSetup& setup, WorkerRateLimit limit) {
  const config::RateLimit& config = limit.limiter->config();
  RateKeyPlace place = place_of_route(setup, limit.limiter->key());
  // The quota of a window as long as an empty bucket takes to fill.
  const uint64_t burst = config.effective_burst();
  const uint64_t window_ms = burst * config::milliseconds(config.rate.period()) / config.rate.events();
  std::string policy = absl::StrCat("\"", config.name, "\";q=", burst, ";w=", (window_ms + 999) / 1000);
  std::string remaining = absl::StrCat("\"", config.name, "\";r=0;t=");
  return {std::move(limit), std::move(place), std::move(policy), std::move(remaining)};
}

std::unique_ptr<Phase> make_limits(const PhaseSetup& setup, bool by_claim) {
  if (!setup.rate_limits) return nullptr;
  const config::HttpRoute* const route = setup.route();
  const std::vector<std::string> names = names_of_both(setup.http->rate_limits, route ? &route->rate_limits : nullptr);
  std::vector<RateLimitsPhase::Limit> limits;
  for (WorkerRateLimit& limit : rate_limits_named(*setup.rate_limits, names)) {
    if (limit.limiter->key().jwt_claim.empty() == by_claim) continue;
    limits.push_back(limit_of_route(setup, std::move(limit)));
  }
  return limits.empty() ? nullptr : std::make_unique<RateLimitsPhase>(std::move(limits));
}

}  // namespace

std::unique_ptr<Phase> make_rate_limits(const PhaseSetup& setup) { return make_limits(setup, /*by_claim=*/false); }
std::unique_ptr<Phase> make_claim_rate_limits(const PhaseSetup& setup) { return make_limits(setup, /*by_claim=*/true); }

}  // namespace sluice
