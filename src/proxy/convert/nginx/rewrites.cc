#include "proxy/convert/nginx/rewrites.h"

#include <utility>

#include "absl/strings/match.h"
#include "proxy/common/suggestions.h"
#include "proxy/config/model/regex.h"
#include "proxy/convert/nginx/actions.h"
#include "proxy/convert/nginx/conditions.h"
#include "proxy/convert/nginx/headers.h"

namespace sluice::convert::nginx {
namespace {

using config::Node;

// The redirect of `rewrite REGEX URL permanent`; nothing if it cannot be said.
std::optional<Node> redirect_of(const Directive& rewrite, const Scope& scope, ServerContext& server) {
  const std::string_view url = rewrite.arg(1);
  const bool permanent = rewrite.arg(2) == "permanent";
  Node out = map_node();
  Node& redirect = put(out, "redirect", map_node());
  if (!permanent) put(redirect, "status", "302");
  if (!put_redirect(url, rewrite.arg(0), server, redirect)) return std::nullopt;
  put_response_headers(scope, Spoken::kHttp, server, out);
  return out;
}

bool is_redirect_rewrite(const Directive& rewrite) {
  const std::string_view flag = rewrite.arg(2), url = rewrite.arg(1);
  return flag == "permanent" || flag == "redirect" || url.starts_with("http://") || url.starts_with("https://") ||
         url.starts_with("$scheme");
}

}  // namespace

Rewrites::Rewrites(const Scope& scope, RequestSet where, ServerContext& server, std::vector<Route>& routes)
    : scope_(scope), where_(std::move(where)), server_(server), routes_(routes) {
  for (const Directive& each : scope.block->block) {
    if (rest_) break;
    map(each);
  }
}

void Rewrites::map(const Directive& directive) {
  if (directive.name == "return") {
    rest_ = return_node(directive, scope_, server_);
  } else if (directive.name == "if") {
    map_if(directive);
  } else if (directive.name == "rewrite") {
    map_rewrite(directive);
  }
}

void Rewrites::close(const Directive& directive, std::string_view why) {
  server_.state.refuse(directive, absl::StrCat(why, ": all requests that get here get 403"));
  rest_ = closed_node();
}

// What an `if` does: nothing if that has no counterpart.
std::optional<Node> Rewrites::action_of(const Directive& block) {
  const Scope scope{&block, &scope_};
  for (const Directive& each : block.block) {
    if (each.name == "return") return return_node(each, scope, server_);
    if (each.name == "rewrite" && is_redirect_rewrite(each)) {
      const std::optional<PathSet> path = path_regex(each.arg(0), false);
      if (!path || path->kind != PathSet::Kind::kAll) {
        const bool all =
            each.arg(0) == "^(.*)$" || each.arg(0) == "^/(.*)$" || each.arg(0) == "(.*)" || each.arg(0) == "^(.*)";
        if (!all) return std::nullopt;
      }
      return redirect_of(each, scope, server_);
    }
    // What else is there must not change what the first of these does.
    if (each.name != "add_header" && each.name != "access_log" && known_directive(each.name).fate != Fate::kIgnored) {
      return std::nullopt;
    }
  }
  return std::nullopt;
}

void Rewrites::map_if(const Directive& directive) {
  Condition condition = map_condition(directive, server_);
  if (condition.kind == Condition::Kind::kNever || directive.block.empty()) return;
  std::optional<Node> action = action_of(directive);
  if (condition.kind == Condition::Kind::kUnknown) return close(directive, "this condition has no counterpart");
  if (!action) return close(directive, "an `if` may only `return`, or redirect");
  switch (condition.kind) {
    case Condition::Kind::kAlways:
      rest_ = std::move(action);
      return;
    case Condition::Kind::kIn:
      return add(directive, condition.set, *std::move(action));
    default:
      exceptions_.push_back(
          {.from = routes_.size(), .only = std::move(condition.set), .otherwise = *std::move(action)});
  }
}

void Rewrites::add(const Directive& directive, const RequestSet& set, Node node) {
  RequestSet when = where_;
  switch (narrow(when, set)) {
    case Narrowing::kDone:
      routes_.push_back({.when = std::move(when), .out = std::move(node)});
      return;
    case Narrowing::kEmpty:
      return;
    case Narrowing::kUnknown:
      close(directive, "its condition cannot be put together with that of its location");
  }
}

void Rewrites::map_rewrite(const Directive& directive) {
  const std::optional<PathSet> path = decoded_path_regex(directive.arg(0), false);
  if (!path)
    return close(directive, absl::StrCat("RE2 does not know the expression ", config::in_quotes(directive.arg(0))));
  if (is_redirect_rewrite(directive)) {
    std::optional<Node> redirect = redirect_of(directive, scope_, server_);
    if (!redirect) {
      server_.state.refuse(directive, absl::StrCat("a redirect to ", config::in_quotes(directive.arg(1)),
                                                   " cannot be said: its requests get 503"));
      redirect = unavailable_node();
    }
    return add(directive, {.path = *path}, *std::move(redirect));
  }
  const std::optional<std::string> whole = whole_regex_of(directive.arg(0), false);
  const std::optional<std::string> substitution = substitution_of(directive.arg(1));
  const bool plain = whole && substitution && !absl::StrContains(*substitution, '?') &&
                     substitution->starts_with('/') && config::Regex::parse(*whole)->accepts(*substitution).ok();
  const bool in_location = scope_.block->name == "location";
  if (directive.arg(2) == "break" && in_location && plain && !path_) {
    path_ = PathRewrite{.regex = *whole, .substitution = *substitution};
    return;
  }
  server_.state.refuse(directive, directive.arg(2) == "break" && in_location
                                      ? "expected one, with a path without a query: its requests get 503"
                                      : "no other location is looked for after it: its requests get 503");
  add(directive, {.path = *path}, unavailable_node());
}

void Rewrites::finish() {
  for (auto exception = exceptions_.rbegin(); exception != exceptions_.rend(); ++exception) {
    std::vector<Route> kept(routes_.begin(), routes_.begin() + static_cast<std::ptrdiff_t>(exception->from));
    for (size_t i = exception->from; i < routes_.size(); ++i) {
      const Narrowing narrowed = narrow(routes_[i].when, exception->only);
      if (narrowed == Narrowing::kEmpty) continue;
      // Nobody is let in by a route whose condition is not known.
      if (narrowed == Narrowing::kUnknown) routes_[i].out = closed_node();
      kept.push_back(std::move(routes_[i]));
    }
    kept.push_back({.when = where_, .out = std::move(exception->otherwise)});
    routes_ = std::move(kept);
  }
  exceptions_.clear();
}

}  // namespace sluice::convert::nginx
