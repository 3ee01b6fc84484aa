// The directives of nginx that may respond to a request, or change its path, before anything else looks at it: `if`,
// `return` and `rewrite`, in their order.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "proxy/convert/nginx/server_context.h"

namespace sluice::convert::nginx {

/// A new path: what becomes of the paths that `regex` fits.
struct PathRewrite {
  std::string regex;
  std::string substitution;
};

class Rewrites {
 public:
  /// `where`: the requests of the block. Routes that the directives make are appended to `routes`, to which the caller
  /// appends those of the block itself before it calls finish().
  Rewrites(const Scope& scope, RequestSet where, ServerContext& server, std::vector<Route>& routes);

  /// What responds to all requests for which no route was made; nothing if the block itself does.
  const std::optional<config::Node>& rest() const { return rest_; }
  /// Of a location: how the path changes on its way to the upstream.
  const std::optional<PathRewrite>& path() const { return path_; }

  /// Adds the conditions that exclude requests from all routes behind them.
  void finish();

 private:
  struct Exception {
    size_t from;  // Index of the first route that it is about.
    RequestSet only;
    config::Node otherwise;
  };

  void map(const Directive& directive);
  void map_if(const Directive& directive);
  void map_rewrite(const Directive& directive);
  void add(const Directive& directive, const RequestSet& set, config::Node node);
  void close(const Directive& directive, std::string_view why);
  std::optional<config::Node> action_of(const Directive& block);

  const Scope& scope_;
  const RequestSet where_;
  ServerContext& server_;
  std::vector<Route>& routes_;
  std::vector<Exception> exceptions_;
  std::optional<config::Node> rest_;
  std::optional<PathRewrite> path_;
};

}  // namespace sluice::convert::nginx
