// Rate limits that a service counts for all proxies, with Envoy's protocol. All descriptors of a request go in one
// call.
#include <array>
#include <charconv>
#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "proxy/config/model/units.h"
#include "proxy/http/proxy/phases/authorizers.h"
#include "proxy/http/proxy/phases/phase.h"
#include "proxy/http/proxy/phases/phase_context.h"
#include "proxy/rate_limit/global_rate_limit.h"

namespace sluice {

namespace {

constexpr uint16_t kTooManyRequests = 429;

class GlobalRateLimitsPhase final : public Phase {
 public:
  GlobalRateLimitsPhase(const PhaseSetup& setup, RateDescriptors&& descriptors)
      : limits_(setup.http.part(*setup.http->global_rate_limits)),
        upstream_(setup.rate_limit_service),
        descriptors_(std::move(descriptors)),
        counters_(setup.counters) {}

  PhaseResult on_request(PhaseContext& exchange) override {
    const std::string_view message = descriptors_.write_request(exchange.attributes());
    if (message.empty()) return PhaseResult::go_on();
    return exchange.make_state<Counting>(*this, exchange, *this).begin(message);
  }

  bool on_response(PhaseContext& exchange, Head& head, bool) override {
    Counting* const counting = exchange.state_of<Counting>(*this);
    return !counting || counting->message.empty() || counting->change_response(head.fields);
  }

 private:
  using Outcome = SideCall::Outcome;

  // A request that waits for the service, and then for its response.
  struct Counting final : PhaseState, SideCall::Caller {
    Counting(const Phase& owner, PhaseContext& waiting, GlobalRateLimitsPhase& gate)
        : PhaseState(owner), exchange(waiting), phase(gate) {}

    PhaseResult begin(std::string_view request) {
      call = exchange.call_grpc(phase.upstream_, kShouldRateLimitPath, request,
                                config::milliseconds(phase.limits_->timeout), *this);
      return early ? *std::exchange(early, std::nullopt) : PhaseResult::wait();
    }

    void on_side_call(Outcome outcome, Head&, Buffer& response, std::string_view error) override {
      const bool waits = std::exchange(call, nullptr) != nullptr;
      const PhaseResult result =
          outcome == Outcome::kResponse ? judge(response) : phase.failed(exchange, outcome, error);
      waits ? exchange.resume(result) : void(early = result);
    }

    void stop() override {
      if (!call) return;
      std::exchange(call, nullptr)->cancel();
      phase.count(GlobalRateLimitResult::kCancelled);
    }

    PhaseResult judge(Buffer& bytes) {
      ChunkPool& pool = exchange.pool();
      const std::string_view text = flat(bytes);
      if (text.size() != bytes.size()) return phase.failed(exchange, Outcome::kFailed, "no memory is left");
      const std::optional<RateLimitResponse> response = read_rate_limit_response(text);
      if (!response) return phase.failed(exchange, Outcome::kFailed, "its response is not a proper RateLimitResponse");
      over_limit = response->over_limit;
      if (!over_limit && response->changes_request && !add_request_fields(pool, text, exchange.request().fields)) {
        return phase.failed(exchange, Outcome::kFailed, "the request has no room for the fields of its response");
      }
      phase.count(over_limit ? GlobalRateLimitResult::kOverLimit : GlobalRateLimitResult::kOk);
      const std::string_view body = response->body;
      if (over_limit && !body.empty() && !exchange.grpc()) {
        refusal.body = bytes.clone(static_cast<size_t>(body.data() - text.data()), body.size());
      }
      if (over_limit || response->changes_response) message = std::move(bytes);
      if (!over_limit) return PhaseResult::go_on();
      if (refusal.body.empty()) return PhaseResult::fail(HttpEnd::kRateLimited, kTooManyRequests);
      refusal.head.status = kTooManyRequests;
      complete_other_response(pool, refusal);
      return PhaseResult::respond_with(HttpEnd::kRateLimited, refusal);
    }

    bool change_response(Fields& fields) {
      ChunkPool& pool = exchange.pool();
      const std::string_view text = flat(message);
      if (!add_response_fields(pool, text, fields)) return false;
      if (!over_limit) return true;
      const std::optional<RateLimitResponse> response = read_rate_limit_response(text);
      if (!response || !add_limit_fields(pool, *response, phase.limits_->domain, fields)) return false;
      const bool typed = response->body.empty() || fields.find("content-type") != Fields::npos;
      return typed || fields.add(pool, "content-type", "text/plain");
    }

    std::string_view flat(Buffer& bytes) {
      const std::span<const std::byte> all = bytes.flatten(exchange.pool());
      return {reinterpret_cast<const char*>(all.data()), all.size()};
    }

    PhaseContext& exchange;
    GlobalRateLimitsPhase& phase;
    SideCall* call = nullptr;          // Null once it is over.
    std::optional<PhaseResult> early;  // What came of it before it returned.
    Buffer message;                    // The RateLimitResponse, if the client's response depends on it.
    OtherResponse refusal;             // The response for the client, if the service gave its body.
    bool over_limit = false;
  };

  void count(GlobalRateLimitResult result) { counters_.global_rate_limits[static_cast<size_t>(result)].add(); }

  PhaseResult failed(PhaseContext& exchange, Outcome outcome, std::string_view error) {
    count(outcome == Outcome::kTimeout ? GlobalRateLimitResult::kTimeout : GlobalRateLimitResult::kError);
    const bool allow = limits_->on_failure == config::OnFailure::kAllow;
    log_no_verdict(exchange, {.feature = "global_rate_limits", .upstream = limits_->to, .error = error}, allow);
    return allow ? PhaseResult::go_on() : PhaseResult::fail(HttpEnd::kRateLimitFailed);
  }

  const config::Snapshot<config::GlobalRateLimits> limits_;
  const uint32_t upstream_;
  RateDescriptors descriptors_;
  HttpCounters& counters_;
};

// Its listener, and its name, or else its place.
std::string route_text(const PhaseSetup& setup) {
  const config::HttpRoute* const route = setup.route();
  if (!route) return absl::StrCat(setup.listener, "/-");
  return absl::StrCat(setup.listener, "/", route->name.empty() ? absl::StrCat(setup.target->index) : route->name);
}

}  // namespace

std::unique_ptr<Phase> make_global_rate_limits(const PhaseSetup& setup) {
  if (!setup.http->global_rate_limits) return nullptr;
  const config::HttpRoute* const route = setup.route();
  RateDescriptors::Place place{.route = route_text(setup), .claims = {}};
  if (route && route->auth && route->auth->jwt) place.claims = route->auth->jwt->claims;
  RateDescriptors descriptors(*setup.http->global_rate_limits, route ? &route->rate_limit_descriptors : nullptr, place);
  if (descriptors.empty()) return nullptr;
  return std::make_unique<GlobalRateLimitsPhase>(setup, std::move(descriptors));
}

}  // namespace sluice
