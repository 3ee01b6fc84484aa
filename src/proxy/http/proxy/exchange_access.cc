// Access control: what an exchange checks before it acts on its route.
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

// Whether the request may continue. If not, either a response was sent, or a password check is pending. Preflights are handled first, because browsers send them without credentials.
bool Exchange::admit() {
  ListenerAccess* const access = listener_.access.get();
  if (!access) return true;
  const auto reject = [this](HttpEnd why) {
    fail(why);
    return false;
  };
  ChunkPool& pool = worker_.worker().pool();
  const CorsPolicy* const cors = target_ ? access->cors(target_->index) : nullptr;
  if (cors && !request_.fields.keep(pool, request_.fields.value("origin"), origin_)) {
    return reject(HttpEnd::kBadRequest);
  }
  if (cors && CorsPolicy::is_preflight(request_)) {
    if (!cors->allows(request_.fields.text(origin_))) return reject(HttpEnd::kForbidden);
    respond(204, {}, {});
    return false;
  }
  if (!access->admits(route_, *facts().client)) return reject(HttpEnd::kForbidden);
  if (!target_) return true;
  const ListenerAccess::Proof proof = access->check(target_->index, pool, request_);
  switch (proof.verdict) {
    case AuthResult::kAdmitted:
      access->remove_credentials(target_->index, request_);
      return true;
    case AuthResult::kRefused:
      return reject(HttpEnd::kUnauthorized);
    case AuthResult::kTooLarge:
      return reject(HttpEnd::kBadRequest);
    case AuthResult::kBusy:
      return reject(HttpEnd::kAuthBusy);
    case AuthResult::kLater:
      break;
  }
  password_check_ = proof.check;
  password_check_->tell([](void* self, bool fits) { static_cast<Exchange*>(self)->on_password_checked(fits); }, this);
  waiting_since_ms_ = now_ms();  // Body that arrives from now on waits.
  return false;
}

void Exchange::on_password_checked(bool fits) {
  password_check_ = nullptr;
  note_activity();
  if (!client_ || response_begun_) return;             // The exchange has timed out in the meantime.
  if (!fits || route_->respond || route_->redirect) {  // The body is dropped.
    held_.clear();
    if (std::exchange(request_paused_, false)) client_->set_reading(true);
  }
  if (!fits) return fail(HttpEnd::kUnauthorized);
  listener_.access->remove_credentials(target_->index, request_);
  serve();
}

// Adds the response fields for an unauthenticated client (WWW-Authenticate) or a page of another origin (CORS).
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
                                            : cors->add_to_response(pool, origin, head.fields);
}

}  // namespace sluice
