#include "proxy/access/own_fields.h"

#include <algorithm>
#include <set>

namespace sluice {

namespace {

bool speaks_of_peer(const config::TextTemplate& text) {
  return std::any_of(text.pieces().begin(), text.pieces().end(), [](const config::TextTemplate::Piece& piece) {
    return piece.variable == config::TextVariable::kPeer;
  });
}

}  // namespace

std::vector<std::string> own_fields(const config::Http& http) {
  std::set<std::string> names;
  const auto add_changes = [&](const std::vector<config::FieldChange>& changes) {
    for (const config::FieldChange& change : changes) {
      if (speaks_of_peer(change.set) || speaks_of_peer(change.add)) names.insert(change.name.text());
    }
  };
  add_changes(http.request_headers);
  for (const config::HttpRoute& route : http.routes) {
    add_changes(route.request_headers);
    if (!route.auth || !route.auth->jwt) continue;
    for (const config::ClaimHeader& claim : route.auth->jwt->claims) names.insert(claim.header.text());
  }
  return {names.begin(), names.end()};
}

}  // namespace sluice
