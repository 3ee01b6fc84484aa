// HTTP filters of Envoy's as keys of a listener's `http` and of its routes.
#pragma once

#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "proxy/envoy/access_rules.h"
#include "proxy/envoy/mapping_state.h"
#include "proxy/envoy/message.h"
#include "proxy/envoy/route_action.h"

namespace sluice::envoy {

/// The filters of one HttpConnectionManager.
class HttpFilters {
 public:
  HttpFilters(const Message& manager, MappingState& state);

  /// Whether a filter that guards requests could not be mapped: then the listener must refuse all of them.
  bool is_locked() const { return is_locked_; }
  /// Keys of `http`.
  const config::Node& http() const { return http_; }
  /// Paths of health checks to which the proxy responds itself.
  const std::vector<std::string>& readiness_paths() const { return readiness_paths_; }

  /// Reads what routes say about filters: typed_per_filter_config, of the most specific level that has it.
  void read_overrides(const Message& route, const RouteSurroundings& around, MappedRoute& made) const;
  /// Adds to the routes what the filters demand, and leaves out those that are never taken. Returns false if
  /// that cannot be said for one of them.
  bool apply(std::vector<MappedRoute>& routes) const;

 private:
  struct Source {
    Message message;
    std::string_view field;  // An Any.
  };
  Source source_of(const Message& entry);
  void read(const Message& entry);
  bool read_guard(const Message& filter);
  void read_compressor(const Message& filter);
  bool read_authorizer(const Message& filter);
  void read_service(const Message& filter);
  void read_health_check(const Message& filter);
  void read_basic(const Message& filter);
  void lock(const Message& entry, std::string_view why);
  /// The cluster of a GrpcService.
  struct GrpcTarget {
    std::string upstream;     ///< Empty if it cannot be used.
    bool is_awaited = false;  ///< A control plane may send it, or its endpoints, later.
  };
  /// `meanwhile`: what becomes of requests while it is awaited, for the finding.
  GrpcTarget find_target(const Message& service, std::string_view meanwhile);
  void put_local_limit(const Message& limit, MappedRoute& route) const;

  MappingState& state_;
  std::deque<Subject> subjects_;  // Messages refer to them.
  bool is_locked_ = false;
  bool has_cors_ = false;
  config::Node http_ = map_node();
  config::Node authorizer_ = map_node();
  // Calls of what is awaited have failed, and failures keep requests out.
  bool lacks_authorizer_ = false, lacks_limits_ = false;
  config::Node basic_ = map_node();
  std::string buffered_;
  Message local_limit_;
  std::vector<AccessRules> rules_;
  std::vector<std::string> readiness_paths_;
};

/// A CorsPolicy as `cors`; a map without keys if no origin can be said.
config::Node cors_node(const Message& policy);

}  // namespace sluice::envoy
