#include "proxy/auth/reserved_headers.h"

#include <algorithm>
#include <set>
#include <string_view>

namespace sluice {

namespace {

bool uses_peer(const config::TextTemplate& text) {
  return std::any_of(text.pieces().begin(), text.pieces().end(), [](const config::TextTemplate::Piece& piece) {
    return piece.variable == config::TextVariable::kPeer;
  });
}

// These carry the credentials of other routes too, so clients may send them.
bool is_credential(std::string_view name) {
  return name == "authorization" || name == "cookie" || name == "proxy-authorization";
}

}  // namespace

std::vector<std::string> reserved_headers(const config::Http& http) {
  std::set<std::string> names;
  const auto add_changes = [&](const std::vector<config::FieldChange>& changes) {
    for (const config::FieldChange& change : changes) {
      if (uses_peer(change.set) || uses_peer(change.add)) names.insert(change.name.text());
    }
  };
  add_changes(http.request_headers);
  for (const config::HttpRoute& route : http.routes) {
    add_changes(route.request_headers);
    for (const config::SplitTarget& part : route.split) add_changes(part.request_headers);
    if (route.forward_auth) {
      for (const config::FieldName& name : route.forward_auth->response_headers) {
        if (!is_credential(name.text())) names.insert(name.text());
      }
    }
    if (!route.auth || !route.auth->jwt) continue;
    for (const config::ClaimHeader& claim : route.auth->jwt->claims) names.insert(claim.header.text());
  }
  return {names.begin(), names.end()};
}

std::vector<std::string> reserved_trailers(const config::Http& http) {
  const std::vector<std::string> own = reserved_headers(http);
  std::set<std::string> names(own.begin(), own.end());
  const auto add_changes = [&](const std::vector<config::FieldChange>& changes) {
    for (const config::FieldChange& change : changes) names.insert(change.name.text());
  };
  add_changes(http.request_headers);
  for (const config::HttpRoute& route : http.routes) {
    add_changes(route.request_headers);
    for (const config::SplitTarget& part : route.split) add_changes(part.request_headers);
    if (route.auth && route.auth->jwt) names.insert(route.auth->jwt->header.text());
    if (!route.forward_auth) continue;
    for (const config::FieldName& name : route.forward_auth->response_headers) names.insert(name.text());
  }
  if (http.request_id) names.insert(http.request_id->header.text());
  if (http.trace_context != config::TraceContext::kOff) names.insert({"traceparent", "tracestate"});
  return {names.begin(), names.end()};
}

}  // namespace sluice
