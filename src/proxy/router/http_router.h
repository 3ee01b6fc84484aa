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
#include "proxy/router/request_attributes.h"

namespace sluice {

/// Where a request goes.
struct HttpTarget {
  static constexpr uint32_t kNone = UINT32_MAX;
  /// Part of its requests.
  struct Share {
    uint32_t upstream;
    uint64_t up_to;  ///< The sum of the weights, this one included.
  };

  uint32_t upstream;               ///< Its index; kNone: the route splits its requests, responds, or redirects.
  uint32_t index;                  ///< Of the route.
  const config::HttpRoute* route;  ///< As long as the router.
  std::vector<Share> shares;       ///< Where it splits them.
  uint32_t mirror = kNone;         ///< The upstream that gets copies.

  /// Whether an upstream is asked.
  bool forwards() const { return upstream != kNone || !shares.empty(); }
  /// The upstream of one request. Precondition: forwards().
  uint32_t choose(Random& random) const;
};

/// An HTTP listener's routing table: the first route, in the order of the configuration, whose conditions all hold. A
/// lookup allocates nothing, and costs hardly more with many routes: those of a host are in one hash table (so are
/// those of a wildcard, and those for any host), which is asked for the path, and for each beginning of it that ends at
/// a slash and is as long as some prefix in the table. Only regular expressions are tried one after the other.
///
///     const HttpTarget* target = router.route({.host = "a.example", .path = "/v1/x"});
///     if (target == nullptr) return not_found();
class HttpRouter {
 public:
  HttpRouter() = default;
  /// Upstream names in `http` are those in `upstreams`.
  HttpRouter(const config::Http& http, const std::vector<config::Upstream>& upstreams);
  HttpRouter(HttpRouter&&) = default;
  HttpRouter& operator=(HttpRouter&&) = default;

  /// Null: there is none. What is not known fits no condition.
  const HttpTarget* route(const RequestAttributes& facts) const;
  /// Of one that route() has given.
  size_t index_of(const config::HttpRoute& route) const { return static_cast<size_t>(&route - routes_.data()); }

 private:
  // Indices of routes, ascending.
  using Indices = std::vector<uint32_t>;

  // Routes for one pattern of hosts, or for any.
  class Group {
   public:
    void add(const config::HttpMatch* match, uint32_t index);
    // Shows `visit(const Indices&)` all that fit the path, in lists.
    template <typename Visit>
    void find(std::string_view path, Visit&& visit) const;

   private:
    struct AtPath {
      Indices exact, prefix;
    };
    Indices any_path_;  // Or those that a regular expression fits.
    absl::flat_hash_map<std::string, AtPath> paths_;
    std::vector<size_t> prefix_lengths_;  // Each once, ascending.
    bool has_exact_ = false;
  };

  std::vector<config::HttpRoute> routes_;
  std::vector<HttpTarget> targets_;  // In step with routes_.
  Group any_host_;
  std::vector<Group> hosts_;
  NameTable names_;  // Values are indices into hosts_.
};

}  // namespace sluice
