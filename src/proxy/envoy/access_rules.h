// Rules of Envoy's filters rbac and jwt_authn, which have conditions of their own, as keys of routes.
#pragma once

#include <string>
#include <vector>

#include "proxy/envoy/mapping_state.h"
#include "proxy/envoy/message.h"
#include "proxy/envoy/route_action.h"

namespace sluice::envoy {

/// What one filter demands. Routes that it concerns in part are split.
class AccessRules {
 public:
  enum class Kind : uint8_t { kJwt, kAllow, kDeny };

  /// Reads a JwtAuthentication. Returns false if a rule cannot be mapped: then the listener must refuse all.
  bool read_jwt(const Message& filter);
  /// Reads an RBAC filter, likewise.
  bool read_rbac(const Message& filter);

  /// Adds what is demanded to the routes. Returns false if that cannot be said for one of them.
  bool apply(std::vector<MappedRoute>& routes) const;

 private:
  struct Rule {
    PathSet path;
    config::Node auth = map_node();  ///< kJwt: `auth`; without keys: nothing is demanded.
    bool all = false;                ///< kAllow, kDeny: everybody.
    std::vector<std::string> ranges;
    std::vector<std::string> peers;
    bool others = false;  ///< kDeny: all but `peers`.
  };

  bool read_policy(const Message& policy);
  bool read_principal(const Message& principal, bool negated, Rule& rule) const;
  config::Node provider_auth(const Message& filter, const std::string& name, bool& known) const;
  std::vector<PathSet> zones() const;
  std::vector<const Rule*> rules_for(const PathSet& zone) const;
  void add(MappedRoute route, const PathSet& zone, std::vector<MappedRoute>& to) const;
  static void add_denied(MappedRoute route, const std::vector<const Rule*>& rules, std::vector<MappedRoute>& to);
  void put_refusals(std::vector<MappedRoute>& routes) const;
  bool split(const std::vector<MappedRoute>& routes, std::vector<MappedRoute>& made) const;
  static void add_allowed(MappedRoute route, const std::vector<const Rule*>& rules, std::vector<MappedRoute>& to);

  Kind kind_ = Kind::kJwt;
  std::vector<Rule> rules_;
};

/// Makes a route refuse all clients.
void deny_all(config::Node& out);

}  // namespace sluice::envoy
