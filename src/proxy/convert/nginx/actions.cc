#include "proxy/convert/nginx/actions.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/strip.h"
#include "proxy/common/suggestions.h"
#include "proxy/config/model/host_pattern.h"
#include "proxy/convert/common/prefix_change.h"
#include "proxy/convert/nginx/headers.h"

namespace sluice::convert::nginx {
namespace {

using config::Node;

// Takes the scheme from the front of a URL. Returns false if there is none.
bool take_scheme(std::string_view& url, Node& out) {
  if (absl::ConsumePrefix(&url, "$scheme://")) return true;
  for (const std::string_view scheme : {"https", "http"}) {
    if (!url.starts_with(absl::StrCat(scheme, "://"))) continue;
    url.remove_prefix(scheme.size() + 3);
    put(out, "scheme", scheme);
    return true;
  }
  return false;
}

// Takes the host, and perhaps a port, from the front of what follows the scheme.
bool take_host(std::string_view& rest, const ServerContext& server, Node& out) {
  if (absl::ConsumePrefix(&rest, "$host") || absl::ConsumePrefix(&rest, "$http_host")) {
    // The host stays.
  } else if (absl::ConsumePrefix(&rest, "$server_name")) {
    if (!config::HostPattern::parse(server.fixed.server_name).ok() || server.fixed.server_name.starts_with('*'))
      return false;
    put(out, "host", server.fixed.server_name);
  } else {
    const size_t end = std::min(rest.find_first_of("/:$?"), rest.size());
    const std::string_view host = rest.substr(0, end);
    if (host.starts_with('*') || !config::HostPattern::parse(host).ok()) return false;
    put(out, "host", host);
    rest.remove_prefix(end);
  }
  if (absl::ConsumePrefix(&rest, ":")) {
    const size_t end = std::min(rest.find_first_not_of("0123456789"), rest.size());
    uint32_t port = 0;
    if (!absl::SimpleAtoi(rest.substr(0, end), &port) || port == 0 || port > 65535) return false;
    put(out, "port", absl::StrCat(port));
    rest.remove_prefix(end);
  }
  return true;
}

// Writes the path, behind the host. `?` at its end drops the query.
bool put_path_of(std::string_view rest, std::string_view regex, Node& out) {
  if (rest == "$request_uri" || rest == "$uri$is_args$args" || rest == "$document_uri$is_args$args") return true;
  const bool rewrites = !regex.empty();
  // A `return` sends only what it says; a `rewrite` adds the query, unless it ends so.
  const bool drops = absl::ConsumeSuffix(&rest, "?") || !rewrites;
  if (rest == "$uri" || rest == "$document_uri") {
    if (drops) put(out, "drop_query", "true");
    return true;
  }
  if (!rewrites && absl::ConsumeSuffix(&rest, "$request_uri")) {
    if (!canonical_path_text(rest)) return false;
    put(out, "regex", "(/.*)");
    put(out, "substitution", absl::StrCat(literal_substitution(rest), "\\1"));
    return true;
  }
  if (rest.empty()) rest = "/";
  if (!has_variables(rest)) {
    if (canonical_path_text(rest) != rest) return false;
    put(out, "path", rest);
  } else {
    const std::optional<std::string> whole = whole_regex_of(regex, false);
    const std::optional<std::string> substitution = substitution_of(rest);
    if (!rewrites || !whole || !substitution || absl::StrContains(*substitution, '?')) return false;
    put(out, "regex", *whole);
    put(out, "substitution", *substitution);
  }
  if (drops) put(out, "drop_query", "true");
  return true;
}

bool is_redirect(uint32_t status) {
  return status == 301 || status == 302 || status == 303 || status == 307 || status == 308;
}

Node redirect_route(uint32_t status, std::string_view url, const Directive& directive, ServerContext& server) {
  Node out = map_node();
  Node& redirect = put(out, "redirect", map_node());
  if (status != 301) put(redirect, "status", absl::StrCat(status));
  if (!put_redirect(url, "", server, redirect)) {
    server.state.refuse(
        directive, absl::StrCat("a redirect to ", config::in_quotes(url), " cannot be said: its requests get 503"));
    return unavailable_node();
  }
  return out;
}

Node respond_route(uint32_t status, const Directive& directive, const Scope& scope, ServerContext& server) {
  const std::string_view text = directive.arg(1);
  if (has_variables(text)) {
    server.state.refuse(directive, "the text of a response has no variables: its requests get 503");
    return unavailable_node();
  }
  if (status == 444) server.state.ignore(directive, "clients get 403; the connection is not closed");
  const bool known = status >= 200 && status <= 599 && status != 444;
  const bool bodiless = status == 204 || status == 205 || status == 304;
  Node out = respond_node(known ? static_cast<int>(status) : 403, bodiless ? "" : text);
  if (!text.empty() && !bodiless) {
    put(map_at(out, "respond"), "content_type", scope.value("default_type", "text/plain"));
  }
  return out;
}

}  // namespace

bool put_redirect(std::string_view url, std::string_view regex, const ServerContext& server, Node& out) {
  std::string_view rest = url;
  if (!rest.starts_with('/') && !(rest.starts_with('$') && !rest.starts_with("$scheme:"))) {
    if (!take_scheme(rest, out) || !take_host(rest, server, out)) return false;
  }
  if (!put_path_of(rest, regex, out)) return false;
  constexpr std::string_view kChanges[] = {"scheme", "host", "port", "path", "regex"};
  for (const std::string_view key : kChanges) {
    if (out.find(key) != nullptr) return true;
  }
  return false;  // To the same URL.
}

Node return_node(const Directive& directive, const Scope& scope, ServerContext& server) {
  uint32_t status = 0;
  Node out;
  if (!absl::SimpleAtoi(directive.arg(0), &status)) {
    out = redirect_route(302, directive.arg(0), directive, server);
  } else if (is_redirect(status) && directive.args.size() > 1) {
    out = redirect_route(status, directive.arg(1), directive, server);
  } else {
    out = respond_route(status, directive, scope, server);
  }
  put_response_headers(scope, Spoken::kHttp, server, out);
  return out;
}

}  // namespace sluice::convert::nginx
