// Who may ask: what an exchange does before its route is taken.
#include <utility>

#include "net/worker.h"
#include "proxy/auth/basic_authenticator.h"
#include "proxy/auth/listener_access.h"
#include "proxy/http/proxy/exchange.h"
#include "proxy/http/proxy/http_listener.h"
#include "proxy/http/proxy/http_session.h"
#include "proxy/http/proxy/http_worker.h"
#include "proxy/router/http_router.h"

namespace sluice {

// Whether the request goes on. Else it is answered, and perhaps destroyed; or it will be when its password is checked.
// Preflights come first: browsers send them without any proof.
bool Exchange::admit() {
  ListenerAccess* const access = listener_.access.get();
  if (!access) return true;
  const auto no = [this](HttpEnd why) {
    fail(why);
    return false;
  };
  ChunkPool& pool = worker_.worker().pool();
  const CorsPolicy* const cors = target_ ? access->cors(target_->index) : nullptr;
  if (cors && !request_.fields.keep(pool, request_.fields.value("origin"), origin_)) return no(HttpEnd::kBadRequest);
  if (cors && CorsPolicy::is_preflight(request_)) {
    if (!cors->allows(request_.fields.text(origin_))) return no(HttpEnd::kForbidden);
    respond(204, {}, {});
    return false;
  }
  if (!access->admits(route_, *facts().client)) return no(HttpEnd::kForbidden);
  if (!target_) return true;
  const ListenerAccess::Proof proof = access->check(target_->index, pool, request_);
  switch (proof.verdict) {
    case AuthResult::kAdmitted:
      access->hide_proof(target_->index, request_);
      return true;
    case AuthResult::kRefused:
      return no(HttpEnd::kUnauthorized);
    case AuthResult::kTooLarge:
      return no(HttpEnd::kBadRequest);
    case AuthResult::kBusy:
      return no(HttpEnd::kAuthBusy);
    case AuthResult::kLater:
      break;
  }
  password_check_ = proof.check;
  password_check_->tell([](void* self, bool fits) { static_cast<Exchange*>(self)->on_password_checked(fits); }, this);
  asked_ms_ = now_ms();  // Body that comes waits since then.
  return false;
}

void Exchange::on_password_checked(bool fits) {
  password_check_ = nullptr;
  note_activity();
  if (!client_ || response_begun_) return;             // It took too long.
  if (!fits || route_->respond || route_->redirect) {  // Nobody wants the body.
    held_.clear();
    if (std::exchange(request_paused_, false)) client_->set_reading(true);
  }
  if (!fits) return fail(HttpEnd::kUnauthorized);
  listener_.access->hide_proof(target_->index, request_);
  serve();
}

// What a client that was refused, or a page of another origin, is told beside the answer.
bool Exchange::add_access_fields(Head& head) {
  const ListenerAccess* const access = listener_.access.get();
  if (!access || !target_) return true;
  ChunkPool& pool = worker_.worker().pool();
  if (end_ == HttpEnd::kUnauthorized && !head.fields.add(pool, "www-authenticate", access->challenge(target_->index))) {
    return false;
  }
  const CorsPolicy* const cors = access->cors(target_->index);
  if (!cors) return true;
  const std::string_view origin = request_.fields.text(origin_);
  return CorsPolicy::is_preflight(request_) ? cors->add_to_preflight(pool, origin, head.fields)
                                            : cors->add_to_answer(pool, origin, head.fields);
}

}  // namespace sluice
