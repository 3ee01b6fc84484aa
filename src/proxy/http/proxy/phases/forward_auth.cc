// External authorization: each request waits until the authorizer has responded to an authorization request.
#include <algorithm>
#include <array>
#include <iterator>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "proxy/config/model/units.h"
#include "proxy/http/proxy/phases/authorizers.h"
#include "proxy/http/proxy/phases/phase.h"
#include "proxy/http/proxy/phases/phase_context.h"

namespace sluice {

namespace {

// Fields that say nothing about the client: those of the body and its transfer, those that would make the authorizer's
// response depend on what the client has, those of a handshake, and those by which a client could claim to be a proxy.
bool describes_client(std::string_view name) {
  for (const std::string_view prefix : {"content-", "if-", "sec-websocket-", "x-forwarded-", "x-original-"}) {
    if (name.starts_with(prefix)) return false;
  }
  constexpr std::string_view kNames[] = {
      "expect",  "forwarded", "grpc-timeout",           "max-forwards", "range",        "te",
      "trailer", "upgrade",   "x-http-method-override", "x-real-ip",    "x-rewrite-url"};
  return std::find(std::begin(kNames), std::end(kNames), name) == std::end(kNames);
}

class ForwardAuthPhase final : public Phase {
 public:
  explicit ForwardAuthPhase(const PhaseSetup& setup)
      : rule_(setup.target->route.part(*setup.target->route->forward_auth)),
        upstream_(setup.target->authorizer),
        counters_(setup.counters) {}

  PhaseResult on_request(PhaseContext& exchange) override {
    Head auth_request;
    if (!write_request(exchange, auth_request)) return PhaseResult::fail(HttpEnd::kBadRequest);
    return exchange.make_state<Pending>(*this, exchange, *this).begin(std::move(auth_request));
  }

 private:
  using Outcome = SideCall::Outcome;

  // A request that waits for the authorizer.
  struct Pending final : PhaseState, SideCall::Caller {
    Pending(const Phase& owner, PhaseContext& waiting, ForwardAuthPhase& gate)
        : PhaseState(owner), exchange(waiting), phase(gate) {}

    PhaseResult begin(Head&& auth_request) {
      call = exchange.authorize(phase.upstream_, std::move(auth_request), config::milliseconds(phase.rule_->timeout),
                                *this);
      return early ? *std::exchange(early, std::nullopt) : PhaseResult::wait();
    }

    void on_side_call(Outcome outcome, Head& response, Buffer& bytes, std::string_view error) override {
      const bool waits = std::exchange(call, nullptr) != nullptr;
      const PhaseResult result = outcome != Outcome::kResponse ? phase.failed(exchange, outcome, error)
                                 : response.status / 100 == 2  ? phase.admit(exchange, response)
                                                               : refuse(response, bytes);
      waits ? exchange.resume(result) : void(early = result);
    }

    void stop() override {
      if (!call) return;
      std::exchange(call, nullptr)->cancel();
      phase.count(ForwardAuthResult::kCancelled);
    }

    // The client gets the authorizer's response.
    PhaseResult refuse(Head& response, Buffer& bytes) {
      phase.count(ForwardAuthResult::kRefused);
      refusal.head = std::move(response);
      refusal.body = std::move(bytes);
      complete_other_response(exchange.pool(), refusal);
      return PhaseResult::respond_with(HttpEnd::kAuthRefused, refusal);
    }

    PhaseContext& exchange;
    ForwardAuthPhase& phase;
    SideCall* call = nullptr;          // Null once it is over.
    std::optional<PhaseResult> early;  // What came of it before authorize() returned.
    OtherResponse refusal;             // The response for the client.
  };

  void count(ForwardAuthResult result) { counters_.forward_auth[static_cast<size_t>(result)].add(); }

  bool write_request(PhaseContext& exchange, Head& auth_request) const {
    ChunkPool& pool = exchange.pool();
    return auth_request.set(pool, Head::Part::kMethod, "GET") &&
           auth_request.set(pool, Head::Part::kPath, rule_->path) &&
           (rule_->host.empty() || auth_request.set(pool, Head::Part::kAuthority, rule_->host)) &&
           copy_request_fields(pool, exchange.request().fields, auth_request.fields) &&
           add_origin(exchange, auth_request.fields);
  }

  bool copy_request_fields(ChunkPool& pool, const Fields& from, Fields& to) const {
    const auto& names = rule_->request_headers;
    for (const Fields::Field field : from) {
      const bool goes = names.empty() ? describes_client(field.name) : is_among(names, field.name);
      if (goes && !to.add(pool, field.name, field.value, field.traits)) return false;
    }
    return true;
  }

  // What the request is, and who sends it.
  static bool add_origin(PhaseContext& exchange, Fields& to) {
    ChunkPool& pool = exchange.pool();
    const Head& request = exchange.request();
    const RequestAttributes facts = exchange.attributes();
    std::array<char, ClientIp::kTextBytes> room;
    const std::string_view client = facts.client->text(room);
    // A websocket is a GET in HTTP/1.1, and a CONNECT in HTTP/2.
    const std::string_view method = request.protocol().empty() ? facts.method : "GET";
    const std::string_view target = request.path().empty() ? facts.authority : request.path();
    return to.add(pool, "x-forwarded-method", method) && to.add(pool, "x-forwarded-proto", facts.scheme) &&
           (facts.authority.empty() || to.add(pool, "x-forwarded-host", facts.authority)) &&
           to.add(pool, "x-forwarded-uri", target) && (client.empty() || to.add(pool, "x-forwarded-for", client));
  }

  static bool is_among(const std::vector<config::FieldName>& names, std::string_view name) {
    return std::any_of(names.begin(), names.end(), [&](const config::FieldName& each) { return each.text() == name; });
  }

  PhaseResult admit(PhaseContext& exchange, const Head& response) {
    remove_copied(exchange.request().fields);
    for (const Fields::Field field : response.fields) {
      if (!is_among(rule_->response_headers, field.name)) continue;
      if (!exchange.request().fields.add(exchange.pool(), field.name, field.value, field.traits)) {
        return failed(exchange, Outcome::kFailed, "the request has no room for the fields of its response");
      }
    }
    count(ForwardAuthResult::kAllowed);
    return PhaseResult::go_on();
  }

  void remove_copied(Fields& fields) const {
    for (const config::FieldName& name : rule_->response_headers) fields.remove(name.text());
  }

  PhaseResult failed(PhaseContext& exchange, Outcome outcome, std::string_view error) {
    const PhaseResult result =
        judge_failure(exchange, counters_, rule_->on_failure,
                      {.feature = "forward_auth", .upstream = rule_->to, .error = error}, outcome);
    if (result.kind == PhaseResult::Kind::kContinue) remove_copied(exchange.request().fields);
    return result;
  }

  const config::Snapshot<config::ForwardAuth> rule_;
  const uint32_t upstream_;
  HttpCounters& counters_;
};

}  // namespace

std::unique_ptr<Phase> make_forward_auth(const PhaseSetup& setup) {
  if (!setup.target || !setup.target->route->forward_auth) return nullptr;
  return std::make_unique<ForwardAuthPhase>(setup);
}

}  // namespace sluice
