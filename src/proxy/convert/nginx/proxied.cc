#include "proxy/convert/nginx/proxied.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "proxy/common/suggestions.h"
#include "proxy/convert/common/prefix_change.h"
#include "proxy/convert/nginx/access.h"
#include "proxy/convert/nginx/headers.h"
#include "proxy/convert/nginx/upstreams.h"

namespace sluice::convert::nginx {
namespace {

using config::Node;

void add_word(std::vector<std::string>& words, std::string_view word) {
  if (std::find(words.begin(), words.end(), word) == words.end()) words.emplace_back(word);
}

// `proxy_next_upstream error timeout http_502;`
void put_retry(const Scope& scope, Spoken spoken, State& state, Node& route) {
  const Directive* const next = scope.find(passing_name(spoken, "next_upstream"));
  const Directive* const tries = scope.find(passing_name(spoken, "next_upstream_tries"));
  if (next == nullptr && tries == nullptr) return;
  Node retry = map_node();
  std::vector<std::string> on, statuses;
  uint32_t attempts = 0;
  bool off = false;
  if (tries != nullptr && absl::SimpleAtoi(tries->arg(0), &attempts) && attempts > 10) attempts = 10;
  const std::vector<std::string> words = next == nullptr ? std::vector<std::string>{"error", "timeout"} : next->args;
  for (const std::string& word : words) {
    if (word == "error") {
      for (const std::string_view each : {"connect_failure", "refused", "reset"}) add_word(on, each);
    } else if (word == "timeout") {
      add_word(on, "connect_failure");
      if (next != nullptr) state.ignore(*next, "a request is tried again after a timeout with `retry.try_timeout`");
    } else if (word == "off") {
      off = true;
    } else if (word.starts_with("http_4") || word.starts_with("http_5")) {
      statuses.push_back(word.substr(5));
    } else if (word == "non_idempotent") {
      state.refuse(*next, "a request that may have been executed is tried again only with an idempotent method");
    } else {
      state.ignore(*next, absl::StrCat(config::in_quotes(word), " is no reason to try a request again"));
    }
  }
  if (off) {
    put(retry, "attempts", "1");
  } else {
    if (on.empty()) on = {"connect_failure"};
    put_words(retry, "on", on);
    put_words(retry, "retriable_status_codes", statuses);
    if (attempts > 0) put(retry, "attempts", absl::StrCat(attempts));
  }
  put(route, "retry", std::move(retry));
}

class LocationMapper {
 public:
  LocationMapper(const Scope& scope, const PathSet& path, const std::optional<PathRewrite>& rewrite,
                 ServerContext& server)
      : scope_(scope), path_(path), rewrite_(rewrite), server_(server), state_(server.state) {}

  Node map() {
    const Directive& block = *scope_.block;
    if (!block.all("internal").empty() || server_.pages.contains(&block)) return respond_node(404);
    if (!block.all("location").empty()) {
      state_.refuse(block, "there are no locations inside of others: its requests get 503");
      return unavailable_node();
    }
    access_ = map_access(scope_, server_.block, state_);
    if (!access_.is_open) return closed_node();
    return content(scope_);
  }

 private:
  Node content(const Scope& scope) {
    const std::vector<const Directive*> passes = scope.block->all("proxy_pass"), calls = scope.block->all("grpc_pass");
    if (!passes.empty()) return proxied(scope, *passes.front(), Spoken::kHttp);
    if (!calls.empty()) return proxied(scope, *calls.front(), Spoken::kGrpc);
    if (const std::vector<const Directive*> files = scope.block->all("try_files"); !files.empty()) {
      return first_file(*files.front());
    }
    const bool reported = std::any_of(scope.block->block.begin(), scope.block->block.end(), [](const Directive& each) {
      return known_directive(each.name).fate == Fate::kContent;
    });
    if (!reported) state_.refuse(*scope.block, "Sluice serves no files: its requests get 503");
    return unavailable_node();
  }

  // `try_files $uri @app;`: there are no files, so that all goes to @app.
  Node first_file(const Directive& files) {
    const std::string last = files.args.empty() ? "" : files.args.back();
    for (const Directive* const location : server_.block.all("location")) {
      if (!last.starts_with('@') || location->arg(0) != last) continue;
      const Scope inner{location, &server_.scope};
      const bool guarded = std::any_of(location->block.begin(), location->block.end(), [](const Directive& each) {
        return each.name == "allow" || each.name == "deny" || each.name.starts_with("auth_") || each.name == "if" ||
               each.name == "return" || each.name == "rewrite" || known_directive(each.name).fate == Fate::kGuard;
      });
      state_.refuse(files, guarded ? "its location has rules of its own: its requests get 503"
                                   : absl::StrCat("Sluice serves no files: all its requests go to ", last));
      return guarded ? unavailable_node() : content(inner);
    }
    state_.refuse(files, "Sluice serves no files: its requests get 503");
    return unavailable_node();
  }

  Node proxied(const Scope& scope, const Directive& pass, Spoken spoken) {
    const std::optional<PassTarget> target = parse_pass(pass.arg(0), spoken);
    if (!target) {
      state_.refuse(pass, absl::StrCat("expected a fixed server, got ", config::in_quotes(pass.arg(0)),
                                       ": its requests get 503"));
      return unavailable_node();
    }
    const std::optional<std::string> upstream = upstream_for(*target, spoken, scope, pass, state_);
    if (!upstream) return unavailable_node();
    Node route = map_node();
    put(route, "forward", *upstream);
    if (!put_path_change(*target, pass, route)) return unavailable_node();
    const bool upgrades = put_request_headers(scope, spoken, *target, access_, server_, route);
    put_response_headers(scope, spoken, server_, route);
    for (size_t i = 0; i < access_.out.keys.size(); ++i) put(route, access_.out.keys[i].text, access_.out.items[i]);
    put_times(scope, spoken, upgrades, route);
    put_retry(scope, spoken, state_, route);
    put_limits(scope, route);
    report_rest(scope);
    return route;
  }

  bool put_path_change(const PassTarget& target, const Directive& pass, Node& route) {
    if (rewrite_) {
      Node& rewrite = map_at(route, "rewrite");
      put(rewrite, "regex", rewrite_->regex);
      put(rewrite, "substitution", rewrite_->substitution);
      return true;
    }
    if (target.uri.empty() || (target.uri == "/" && path_.kind == PathSet::Kind::kAll)) return true;
    Node rewrite = map_node();
    if (path_.kind == PathSet::Kind::kRegex || !put_prefix_change(path_, target.uri, path_, rewrite)) {
      state_.refuse(pass, absl::StrCat("the path ", config::in_quotes(target.uri),
                                       " cannot replace that of the location: its requests get 503"));
      return false;
    }
    put(route, "rewrite", std::move(rewrite));
    return true;
  }

  void put_times(const Scope& scope, Spoken spoken, bool upgrades, Node& route) {
    const Directive* const read = scope.find(passing_name(spoken, "read_timeout"));
    if (read == nullptr) return;
    put_time(route, "response_timeout", read, state_, "8760h");
    put_time(route, "stream_idle_timeout", read, state_, "8760h");
    const auto time = parse_time(read->arg(0));
    if (upgrades && time) server_.tunnel_timeout = std::max(server_.tunnel_timeout, *time);
  }

  void put_limits(const Scope& scope, Node& route) {
    const Node* const most = server_.http.find("max_body");
    Node own = map_node();
    if (scope.find("client_max_body_size") == nullptr) {
      put(own, "max_body", "1MiB");  // As nginx has it.
    } else {
      put_size(own, "max_body", scope.find("client_max_body_size"), state_);
    }
    const Node* const size = own.find("max_body");
    if (size != nullptr && (most == nullptr || most->text != size->text)) put(route, "max_body", size->text);
    if (server_.http.find("compression") != nullptr && !scope.is_on("gzip")) put(route, "compression", "false");
    for (const Directive* const limit : scope.block->all("limit_conn")) {
      state_.refuse(*limit, "connections are limited for a whole listener");
    }
  }

  void report_rest(const Scope& scope) {
    if (const Directive* const version = scope.find("proxy_http_version");
        version != nullptr && version->arg(0) != "1.1") {
      state_.ignore(*version, "upstreams are spoken to by HTTP/1.1");
    }
    if (const Directive* const body = scope.find("proxy_pass_request_body"); body != nullptr && body->arg(0) == "off") {
      state_.refuse(*body, "bodies are forwarded");
    }
    if (const Directive* const errors = scope.find("proxy_intercept_errors");
        errors != nullptr && errors->arg(0) == "on") {
      state_.refuse(*errors, "responses of upstreams pass as they are");
    }
    for (const Directive* const redirect : scope.all("proxy_redirect")) {
      if (redirect->arg(0) == "off") continue;
      state_.refuse(*redirect, "Location of upstreams passes as it is");
    }
    if (scope.block->all("error_page").empty()) return;
    state_.refuse(*scope.block->all("error_page").front(), "pages of errors are those of a listener");
  }

  const Scope& scope_;
  const PathSet& path_;
  const std::optional<PathRewrite>& rewrite_;
  ServerContext& server_;
  State& state_;
  Access access_;
};

}  // namespace

Node location_node(const Scope& scope, const PathSet& path, const std::optional<PathRewrite>& rewrite,
                   ServerContext& server) {
  Node route = LocationMapper(scope, path, rewrite, server).map();
  // Responses of the proxy have these fields, too.
  if (route.find("forward") == nullptr) put_response_headers(scope, Spoken::kHttp, server, route);
  return route;
}

}  // namespace sluice::convert::nginx
