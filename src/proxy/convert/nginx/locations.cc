#include "proxy/convert/nginx/locations.h"

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "absl/strings/match.h"
#include "proxy/common/suggestions.h"
#include "proxy/convert/common/ordering.h"
#include "proxy/convert/nginx/proxied.h"
#include "proxy/convert/nginx/rewrites.h"

namespace sluice::convert::nginx {
namespace {

enum class Modifier : uint8_t { kExact, kFirst, kPrefix, kRegex, kNamed };

struct Location {
  const Directive* block;
  Modifier modifier = Modifier::kPrefix;
  std::string text;
  PathSet path = {};
  bool is_known = true;  // False: its condition has no counterpart.
};

Location parse_location(const Directive& block) {
  Location made{.block = &block};
  std::string_view word = block.arg(0);
  made.text = block.arg(block.args.size() > 1 ? 1 : 0);
  if (block.args.size() < 2) {
    // `location =/path` and `location ~/path`, without a space.
    for (const std::string_view modifier : {"^~", "~*", "=", "~"}) {
      if (!word.starts_with(modifier)) continue;
      made.text = word.substr(modifier.size());
      word = modifier;
      break;
    }
  }
  if (word == "~" || word == "~*") {
    made.modifier = Modifier::kRegex;
    const std::optional<PathSet> path = decoded_path_regex(made.text, word == "~*");
    made.is_known = path.has_value();
    if (path) made.path = *path;
    return made;
  }
  if (made.text.starts_with('@')) {
    made.modifier = Modifier::kNamed;
    return made;
  }
  made.modifier = word == "=" ? Modifier::kExact : word == "^~" ? Modifier::kFirst : Modifier::kPrefix;
  const bool exact = made.modifier == Modifier::kExact;
  std::optional<PathSet> path = decoded_path(made.text, exact ? PathSet::Kind::kExact : PathSet::Kind::kBytes);
  made.is_known = path.has_value();
  if (path) made.path = *std::move(path);
  if (made.modifier != Modifier::kExact && made.text == "/") made.path = {};
  return made;
}

class ServerMapper {
 public:
  explicit ServerMapper(ServerContext& server) : server_(server) {}

  std::vector<Route> map() {
    Rewrites rewrites(server_.scope, {}, server_, routes_);
    if (rewrites.rest()) {
      routes_.push_back({.when = {}, .out = *rewrites.rest()});
    } else {
      read();
      add_all();
    }
    rewrites.finish();
    return std::move(routes_);
  }

 private:
  bool is_prefix(const Location& location) const {
    return location.modifier == Modifier::kPrefix || location.modifier == Modifier::kFirst;
  }

  void read() {
    for (const Directive* const block : server_.block.all("location")) locations_.push_back(parse_location(*block));
    for (const Location& each : locations_) has_regexes_ = has_regexes_ || each.modifier == Modifier::kRegex;
  }

  // Exact paths, then prefixes that keep expressions out, expressions in their order, and the other prefixes.
  void add_all() {
    for (const Location& each : locations_) {
      if (each.modifier == Modifier::kExact) add(each);
    }
    add_slash_redirects();
    std::vector<const Location*> prefixes;
    for (const Location& each : locations_) {
      if (is_prefix(each)) prefixes.push_back(&each);
    }
    // nginx takes the longest prefix, wherever it is.
    sort_in_order(prefixes, [](const Location* a, const Location* b) { return a->text.size() > b->text.size(); });
    for (const Location* const each : prefixes) {
      if (each->modifier == Modifier::kFirst) add_first(*each, prefixes);
    }
    for (const Location& each : locations_) {
      if (each.modifier == Modifier::kRegex && !closed_) add(each);
    }
    for (const Location* const each : prefixes) {
      if (each->modifier == Modifier::kPrefix && !closed_) add(*each);
    }
    add_rest();
  }

  // A prefix with `^~`, behind the longer ones without, which expressions may still take.
  void add_first(const Location& first, const std::vector<const Location*>& prefixes) {
    for (const Location* const other : prefixes) {
      const bool inside = other->modifier == Modifier::kPrefix && other->text.size() > first.text.size() &&
                          other->text.starts_with(first.text);
      if (!inside) continue;
      if (has_regexes_) {
        server_.state.refuse(*other->block,
                             "a location without ^~ inside of one with it comes behind expressions only there: its "
                             "requests get 403");
        routes_.push_back({.when = {.path = other->path}, .out = closed_node()});
      } else {
        add(*other);
      }
    }
    add(first);
  }

  // nginx redirects `/api` to `/api/`, where that is a location that is forwarded.
  void add_slash_redirects() {
    for (const Location& each : locations_) {
      const bool forwards = !each.block->all("proxy_pass").empty() || !each.block->all("grpc_pass").empty();
      if (!is_prefix(each) || !each.is_known || each.path.kind != PathSet::Kind::kBytes || !each.text.ends_with('/') ||
          !forwards) {
        continue;
      }
      const std::string bare = each.path.text.substr(0, each.path.text.size() - 1);
      const bool taken = std::any_of(locations_.begin(), locations_.end(), [&](const Location& other) {
        return (is_prefix(other) || other.modifier == Modifier::kExact) && other.path.text == bare;
      });
      if (taken) continue;
      Route route{.when = {.path = {.kind = PathSet::Kind::kExact, .text = bare}}};
      put(put(route.out, "redirect", map_node()), "path", each.path.text);
      routes_.push_back(std::move(route));
    }
  }

  void add(const Location& location) {
    if (!location.is_known) {
      // It is not known which requests it takes: of those that come here, nobody is let in.
      server_.state.refuse(*location.block,
                           location.modifier == Modifier::kRegex
                               ? "this expression has no counterpart: requests that no location before it takes get 403"
                               : "no request has such a path");
      if (location.modifier == Modifier::kRegex) closed_ = true;
      return;
    }
    const Scope scope{location.block, &server_.scope};
    const RequestSet when{.path = location.path};
    Rewrites rewrites(scope, when, server_, routes_);
    config::Node out =
        rewrites.rest() ? *rewrites.rest() : location_node(scope, location.path, rewrites.path(), server_);
    routes_.push_back({.when = when, .out = std::move(out)});
    rewrites.finish();
  }

  void add_rest() {
    config::Node out = closed_node();
    if (!closed_) {
      out = respond_node(404);
      if (const Directive* const root = server_.scope.find("root")) {
        server_.state.refuse(*root, "Sluice serves no files: requests that no location takes get 404");
      }
    }
    routes_.push_back({.when = {}, .out = std::move(out)});
  }

  ServerContext& server_;
  std::vector<Location> locations_;
  std::vector<Route> routes_;
  bool has_regexes_ = false;
  bool closed_ = false;
};

}  // namespace

std::vector<Route> server_routes(ServerContext& server) { return ServerMapper(server).map(); }

}  // namespace sluice::convert::nginx
