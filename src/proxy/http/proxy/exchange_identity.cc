// The identity of a request: which claims about it are believed, and where it is passed on.

#include "net/worker.h"
#include "proxy/http/proxy/exchange.h"
#include "proxy/http/proxy/forward_head.h"
#include "proxy/http/proxy/http_listener.h"
#include "proxy/http/proxy/http_session.h"
#include "proxy/http/proxy/http_worker.h"

namespace sluice {

bool Exchange::find_identity() {
  return identify(worker_.worker().pool(), config(), session_->client_ip(), worker_.ids(),
                  listener_.counters.claims_refused, request_, identity_);
}

const ClientIp& Exchange::client_ip() const { return listener_.identifies ? identity_.client : session_->client_ip(); }

std::string_view Exchange::scheme() const {
  switch (identity_.scheme) {
    case ForwardedScheme::kHttp:
      return "http";
    case ForwardedScheme::kHttps:
      return "https";
    case ForwardedScheme::kNone:
      break;
  }
  return listener_.http1.secure ? "https" : "http";
}

bool Exchange::add_origin_fields() {
  const Origin origin{session_->client_ip(), client_ip(), scheme(), original_authority(), listener_.listener.name};
  return add_origin(worker_.worker().pool(), config(), origin,
                    session_->http2() ? listener_.via_http2 : listener_.via_http1, listener_.counters.claims_refused,
                    request_);
}

bool Exchange::return_request_id(Head& head) {
  const std::optional<config::RequestId>& rule = config().request_id;
  if (!rule || !rule->respond) return true;
  head.fields.remove(rule->header.text());
  const std::string_view id = request_.fields.text(identity_.request_id);
  return id.empty() || head.fields.add(worker_.worker().pool(), rule->header.text(), id);
}

}  // namespace sluice
