// Passwords and tokens. A password whose hash is slow is checked on a helper thread, while the request waits.
#include <memory>
#include <utility>

#include "proxy/http/proxy/phases/phase.h"
#include "proxy/http/proxy/phases/phase_context.h"

namespace sluice {

namespace {

class AuthenticationPhase final : public Phase {
 public:
  /// `logged`: the access log has the name of who is admitted.
  AuthenticationPhase(ListenerAccess& access, uint32_t route, bool logged)
      : access_(access), route_(route), logged_(logged) {}

  PhaseResult on_request(PhaseContext& exchange) override {
    const ListenerAccess::Proof proof = access_.check(route_, exchange.pool(), exchange.request());
    switch (proof.verdict) {
      case AuthResult::kAdmitted:
        return admitted(exchange);
      case AuthResult::kRefused:
        return PhaseResult::fail(HttpEnd::kUnauthorized);
      case AuthResult::kTooLarge:
        return PhaseResult::fail(HttpEnd::kBadRequest);
      case AuthResult::kBusy:
        return PhaseResult::fail(HttpEnd::kAuthBusy);
      case AuthResult::kLater:
        break;
    }
    exchange.make_state<Pending>(*this, exchange, *this, *proof.check);
    return PhaseResult::wait();
  }

  bool on_response(PhaseContext& exchange, Head& head, bool) override {
    return exchange.end() != HttpEnd::kUnauthorized ||
           head.fields.add(exchange.pool(), "www-authenticate", access_.challenge(route_));
  }

 private:
  // A password check that has not ended.
  struct Pending final : PhaseState {
    Pending(const Phase& owner, PhaseContext& waiting, AuthenticationPhase& gate, PasswordCheck& pending)
        : PhaseState(owner), exchange(waiting), authentication(gate), check(&pending) {
      check->tell([](void* self, bool fits) { static_cast<Pending*>(self)->checked(fits); }, this);
    }
    ~Pending() override {
      if (check) check->forget();
    }
    void checked(bool fits) {
      check = nullptr;
      exchange.resume(fits ? authentication.admitted(exchange) : PhaseResult::fail(HttpEnd::kUnauthorized));
    }

    PhaseContext& exchange;
    AuthenticationPhase& authentication;
    PasswordCheck* check;  // Null once it has ended.
  };

  PhaseResult admitted(PhaseContext& exchange) {
    if (logged_) {
      ListenerAccess::NameRoom room;
      exchange.keep_user(access_.user(route_, exchange.request(), room));
    }
    access_.remove_credentials(route_, exchange.request());
    return PhaseResult::go_on();
  }

  ListenerAccess& access_;
  const uint32_t route_;
  const bool logged_;
};

}  // namespace

std::unique_ptr<Phase> make_authentication(const PhaseSetup& setup) {
  if (!setup.target || !setup.target->route->auth) return nullptr;
  return std::make_unique<AuthenticationPhase>(*setup.access, setup.target->index, setup.http->access_log.has_value());
}

}  // namespace sluice
