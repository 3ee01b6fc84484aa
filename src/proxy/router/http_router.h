#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "proxy/common/name_match.h"
#include "proxy/common/random.h"
#include "proxy/config/model/config.h"
#include "proxy/config/model/snapshot.h"
#include "proxy/router/request_attributes.h"

namespace sluice {

/// The destination of a request.
struct HttpTarget {
  static constexpr uint32_t kNone = UINT32_MAX;
  /// The part of the requests that one upstream gets.
  struct Share {
    uint32_t upstream;
    uint64_t up_to;  ///< The sum of the weights up to and including this one.
  };

  uint32_t upstream;  ///< Index of the upstream; kNone: the route splits, responds, or redirects.
  uint32_t index;     ///< Index of the route.
  config::Snapshot<config::HttpRoute> route;
  std::vector<Share> shares;           ///< If the route splits its requests, as it has them.
  std::vector<uint32_t> mirrors = {};  ///< Indices of the upstreams that get copies, as the route has them.
  uint32_t authorizer = kNone;         ///< Index of the upstream of `forward_auth` or `ext_authz`.

  /// Whether requests are forwarded to an upstream.
  bool forwards() const { return upstream != kNone || !shares.empty(); }
  /// Chooses the share of one request: an index into `shares`; kNone if there are none.
  uint32_t choose(Random& random) const;
  /// The upstream of the requests of a share. Precondition: forwards().
  uint32_t upstream_of(uint32_t share) const { return share == kNone ? upstream : shares[share].upstream; }
};

/// The routing table of an HTTP listener: finds the first route, in configuration order, whose conditions all hold. A
/// lookup allocates nothing, and its cost hardly depends on the number of routes: the routes of a host (and those of a
/// wildcard, and those for any host) are in one hash table, which is searched for the path, and for each of its
/// prefixes that ends at a slash and has the length of a prefix in the table. Only regular expressions are tried one by
/// one.
///
///     const HttpTarget* target = router.route({.host = "a.example", .path = "/v1/x"});
///     if (target == nullptr) return not_found();
class HttpRouter {
 public:
  HttpRouter() = default;
  /// Precondition: every upstream that `http` names is in `upstreams`.
  HttpRouter(const config::Http& http, const std::vector<config::Upstream>& upstreams);
  HttpRouter(HttpRouter&&) = default;
  HttpRouter& operator=(HttpRouter&&) = default;

  /// Returns the target of the first matching route, or null if there is none. An unknown attribute matches no
  /// condition.
  const HttpTarget* route(const RequestAttributes& facts) const;
  /// The targets of all routes, in configuration order. Valid as long as the router.
  const std::vector<HttpTarget>& targets() const { return targets_; }

 private:
  // Indices of routes, ascending.
  using Indices = std::vector<uint32_t>;

  // The routes for one host pattern, or for any host.
  class Group {
   public:
    void add(const config::HttpMatch* match, uint32_t index);
    // Calls `visit(const Indices&)` with each list of routes that match the path.
    template <typename Visit>
    void find(std::string_view path, Visit&& visit) const;

   private:
    struct AtPath {
      Indices exact, prefix;
    };
    Indices any_path_;  // Routes without a path condition or with a regular expression.
    absl::flat_hash_map<std::string, AtPath> paths_;
    std::vector<size_t> prefix_lengths_;  // Distinct, ascending.
    bool has_exact_ = false;
  };

  std::vector<HttpTarget> targets_;  // By route.
  Group any_host_;
  std::vector<Group> hosts_;
  NameTable names_;  // Values are indices into hosts_.
};

}  // namespace sluice
