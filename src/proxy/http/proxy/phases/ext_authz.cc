// External authorization by gRPC, with Envoy's protocol: each request waits until the authorizer has judged it.
#include "proxy/auth/ext_authz.h"

#include <time.h>

#include <array>
#include <charconv>
#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <utility>

#include "proxy/config/model/units.h"
#include "proxy/http/message/grpc_message.h"
#include "proxy/http/message/header_option.h"
#include "proxy/http/proxy/phases/authorizers.h"
#include "proxy/http/proxy/phases/phase.h"
#include "proxy/http/proxy/phases/phase_context.h"

namespace sluice {

namespace {

int64_t unix_micros_now() {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  return int64_t{now.tv_sec} * 1'000'000 + now.tv_nsec / 1000;
}

std::string_view text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

class ExtAuthzPhase final : public Phase {
 public:
  explicit ExtAuthzPhase(const PhaseSetup& setup)
      : rule_(setup.target->route.part(*setup.target->route->ext_authz)),
        upstream_(setup.target->authorizer),
        counters_(setup.counters) {}

  PhaseResult on_request(PhaseContext& exchange) override {
    static thread_local const auto room = std::make_unique_for_overwrite<char[]>(kMaxCheckRequestBytes);
    const RequestAttributes facts = exchange.attributes();
    const std::string_view message = write_check_request({.head = exchange.request(),
                                                          .facts = facts,
                                                          .local = exchange.local_address(),
                                                          .ended = exchange.request_ended(),
                                                          .unix_micros = unix_micros_now()},
                                                         {room.get(), kMaxCheckRequestBytes});
    if (message.empty()) return failed(exchange, Outcome::kFailed, "the request to it is too large");
    return exchange.make_state<Pending>(*this, exchange, *this).begin(message);
  }

  bool on_response(PhaseContext& exchange, Head& head, bool) override {
    Pending* const pending = exchange.state_of<Pending>(*this);
    return !pending || pending->details.empty() ||
           change_client_response(exchange.pool(), text_of(pending->details.flatten(exchange.pool())), head.fields);
  }

 private:
  using Outcome = SideCall::Outcome;

  // A request that waits for the authorizer, and then for its response.
  struct Pending final : PhaseState, SideCall::Caller {
    Pending(const Phase& owner, PhaseContext& waiting, ExtAuthzPhase& gate)
        : PhaseState(owner), exchange(waiting), phase(gate) {}

    PhaseResult begin(std::string_view message) {
      call = exchange.call_grpc(phase.upstream_, kExtAuthzPath, message, config::milliseconds(phase.rule_->timeout),
                                *this);
      return early ? *std::exchange(early, std::nullopt) : PhaseResult::wait();
    }

    void on_side_call(Outcome outcome, Head&, Buffer& message, std::string_view error) override {
      const bool waits = std::exchange(call, nullptr) != nullptr;
      const PhaseResult result =
          outcome == Outcome::kResponse ? judge(message) : phase.failed(exchange, outcome, error);
      waits ? exchange.resume(result) : void(early = result);
    }

    void stop() override {
      if (!call) return;
      std::exchange(call, nullptr)->cancel();
      phase.count(ForwardAuthResult::kCancelled);
    }

    PhaseResult judge(Buffer& message) {
      const std::span<const std::byte> bytes = message.flatten(exchange.pool());
      if (bytes.size() != message.size()) return phase.failed(exchange, Outcome::kFailed, "no memory is left");
      const std::optional<CheckResponse> response = read_check_response(text_of(bytes));
      if (!response) return phase.failed(exchange, Outcome::kFailed, "its response is not a proper CheckResponse");
      switch (response->verdict) {
        case CheckResponse::Verdict::kAllowed:
          return admit(*response, bytes, message);
        case CheckResponse::Verdict::kDenied:
          return refuse(*response, bytes, message);
        case CheckResponse::Verdict::kError:
          break;
      }
      return phase.failed(exchange, Outcome::kFailed, "its response is an error_response");
    }

    PhaseResult admit(const CheckResponse& response, std::span<const std::byte> bytes, Buffer& message) {
      if (!change_request(exchange.pool(), response, exchange.request().fields)) {
        return phase.failed(exchange, Outcome::kFailed, "the request has no room for the fields of its response");
      }
      if (response.changes_response) details = part(message, bytes, response.details);
      phase.count(ForwardAuthResult::kAllowed);
      return PhaseResult::go_on();
    }

    // The client gets the authorizer's response; a gRPC client as one of gRPC.
    PhaseResult refuse(const CheckResponse& response, std::span<const std::byte> bytes, Buffer& message) {
      ChunkPool& pool = exchange.pool();
      if (!add_denied_fields(pool, response, refusal.head.fields)) {
        return phase.failed(exchange, Outcome::kFailed, "its response has too many fields");
      }
      phase.count(ForwardAuthResult::kRefused);
      refusal.head.status = response.status;
      if (exchange.grpc()) {
        refuse_grpc(response);
      } else {
        if (!response.body.empty()) refusal.body = part(message, bytes, response.body);
        complete_other_response(pool, refusal);
      }
      return PhaseResult::respond_with(HttpEnd::kAuthRefused, refusal);
    }

    void refuse_grpc(const CheckResponse& response) {
      ChunkPool& pool = exchange.pool();
      std::array<char, 4> digits;
      const auto written =
          std::to_chars(digits.data(), digits.data() + digits.size(), grpc_status_of_http(response.status));
      Fields& fields = refusal.head.fields;
      fields.remove("content-type");
      (void)fields.add(pool, "content-type", "application/grpc");
      (void)fields.add(pool, "grpc-status", {digits.data(), static_cast<size_t>(written.ptr - digits.data())});
      (void)fields.add(pool, "grpc-message", "the authorizer refused the request");
      refusal.head.status = 200;
    }

    // A part of the message that shares its memory.
    static Buffer part(Buffer& message, std::span<const std::byte> bytes, std::string_view text) {
      if (text.empty()) return {};
      return message.clone(static_cast<size_t>(reinterpret_cast<const std::byte*>(text.data()) - bytes.data()),
                           text.size());
    }

    PhaseContext& exchange;
    ExtAuthzPhase& phase;
    SideCall* call = nullptr;          // Null once it is over.
    std::optional<PhaseResult> early;  // What came of it before it returned.
    OtherResponse refusal;             // The response for the client.
    Buffer details;                    // An OkHttpResponse with fields for the client.
  };

  void count(ForwardAuthResult result) { counters_.forward_auth[static_cast<size_t>(result)].add(); }

  PhaseResult failed(PhaseContext& exchange, Outcome outcome, std::string_view error) {
    return judge_failure(exchange, counters_, rule_->on_failure,
                         {.feature = "ext_authz", .upstream = rule_->to, .error = error}, outcome);
  }

  const config::Snapshot<config::ExtAuthz> rule_;
  const uint32_t upstream_;
  HttpCounters& counters_;
};

}  // namespace

std::unique_ptr<Phase> make_ext_authz(const PhaseSetup& setup) {
  if (!setup.target || !setup.target->route->ext_authz) return nullptr;
  return std::make_unique<ExtAuthzPhase>(setup);
}

}  // namespace sluice
