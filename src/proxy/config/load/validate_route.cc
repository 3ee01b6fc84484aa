#include "proxy/config/load/validate_route.h"

#include <algorithm>
#include <string_view>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "proxy/common/suggestions.h"
#include "proxy/common/token.h"
#include "proxy/config/load/validate_http.h"
#include "proxy/router/canonical_path.h"

namespace sluice::config {
namespace {

bool is_host(std::string_view host) {
  if (host.starts_with('[')) return host.ends_with(']') && Address::parse(absl::StrCat(host, ":1")).ok();
  return !host.starts_with('*') && HostPattern::parse(host).ok();
}

// A host with an optional port.
bool is_authority(std::string_view text) {
  const size_t colon = text.rfind(':');
  if (colon == std::string_view::npos || text.ends_with(']')) return is_host(text);
  uint32_t port = 0;
  return is_host(text.substr(0, colon)) && absl::SimpleAtoi(text.substr(colon + 1), &port) && port > 0 && port <= 65535;
}

class RouteChecker {
 public:
  RouteChecker(const HttpRoute& route, const Paths& paths, Report& report)
      : route_(route), paths_(paths), report_(report) {}

  void check(const std::string& path) {
    if (route_.match) check_match(*route_.match, path + ".match");
    if (route_.respond) check_respond(*route_.respond, path + ".respond");
    if (route_.redirect) check_redirect(*route_.redirect, path + ".redirect");
    if (route_.rewrite) check_rewrite(*route_.rewrite, path + ".rewrite");
    check_split(path + ".split");
    if (route_.maintenance && route_.maintenance->file.empty()) {
      report_.error(path + ".maintenance.file", "expected the name of a file");
    }
    if (route_.auth) check_auth(*route_.auth, path + ".auth", report_);
    if (route_.forward_auth) check_forward_auth(*route_.forward_auth, path + ".forward_auth", report_);
    if (route_.cors) check_cors(*route_.cors, path + ".cors", report_);
    if (!route_.request_headers.empty()) check_forwards(path + ".request_headers");
    if (route_.max_body) check_forwards(path + ".max_body");
    if (route_.request_timeout) check_forwards(path + ".request_timeout");
    if (route_.stream_idle_timeout) check_forwards(path + ".stream_idle_timeout");
    if (route_.response_timeout) check_forwards(path + ".response_timeout");
    if (!route_.mirror.empty()) check_forwards(path + ".mirror");
    if (route_.buffer) check_buffer(*route_.buffer, path + ".buffer");
    if (route_.retry) check_retry(*route_.retry, path + ".retry");
    check_field_changes(route_.request_headers, path + ".request_headers", report_);
    check_field_changes(route_.response_headers, path + ".response_headers", report_);
  }

 private:
  void check_match(const HttpMatch& match, const std::string& path) {
    if (match == HttpMatch()) {
      report_.error(path,
                    "expected `host`, `path`, `method`, `headers`, `query`, `source` or `peer`; for a route that takes "
                    "everything leave `match` out");
    }
    if (match.path) check_path_match(*match.path, path + ".path");
    for (size_t i = 0; i < match.method.size(); ++i) {
      const std::string& method = match.method[i];
      if (http1::is_token(method) && absl::AsciiStrToUpper(method) == method) continue;
      report_.error(item_path(path + ".method", i),
                    absl::StrCat("expected a method such as GET, in capitals, got ", in_quotes(method)));
    }
    for (size_t i = 0; i < match.headers.size(); ++i) {
      if (match.headers[i].name.text() != "host") continue;
      report_.error(item_path(path + ".headers", i) + ".name", "Host is no field here: write `match: { host: NAME }`");
    }
    for (size_t i = 0; i < match.query.size(); ++i) {
      if (!match.query[i].name.empty()) continue;
      report_.error(item_path(path + ".query", i) + ".name", "expected the name of a parameter");
    }
  }

  void check_path_match(const PathMatch& match, const std::string& path) {
    const int given = (match.exact.empty() ? 0 : 1) + (match.prefix.empty() ? 0 : 1) + (match.regex.is_set() ? 1 : 0);
    if (given != 1) {
      return report_.error(path, given == 0 ? "expected `prefix: PATH`, `exact: PATH` or `regex: REGEX`"
                                            : "`prefix`, `exact` and `regex` exclude each other");
    }
    if (match.regex.is_set()) return;
    const bool exact = !match.exact.empty();
    check_path(exact ? match.exact : match.prefix, path + (exact ? ".exact" : ".prefix"));
  }

  void check_path(const std::string& text, const std::string& path) {
    if (text.front() != '/') {
      return report_.error(path, absl::StrCat("expected a path such as /v1, got ", in_quotes(text)));
    }
    std::string scratch(text.size(), '\0');
    const CanonicalTarget canonical = canonical_target(text, paths_, scratch);
    if (canonical.status == PathStatus::kInvalid) {
      report_.error(path, absl::StrCat("no request has such a path: ", in_quotes(text), " has ", canonical.error));
    } else if (canonical.path_bytes != canonical.target.size()) {
      report_.error(path, absl::StrCat("the query does not count: write ", in_quotes(canonical.path())));
    } else if (canonical.status == PathStatus::kChanged) {
      report_.error(path, absl::StrCat("paths are compared in their canonical form: for ", in_quotes(text), " write ",
                                       in_quotes(canonical.target)));
    }
  }

  void check_respond(const Respond& respond, const std::string& path) {
    const bool bodiless = respond.status == 204 || respond.status == 205 || respond.status == 304;
    if (bodiless && !respond.body.empty()) {
      report_.error(path + ".body", absl::StrCat("a response of ", respond.status, " has no body: leave it out"));
    }
    check_content_type(respond.content_type, path + ".content_type", report_);
  }

  void check_redirect(const Redirect& redirect, const std::string& path) {
    if (redirect.status >= 304 && redirect.status <= 306) {
      report_.error(path + ".status",
                    absl::StrCat("expected 301, 302, 303, 307 or 308, got \"", redirect.status, "\""));
    }
    if (!redirect.scheme.empty() && redirect.scheme != "http" && redirect.scheme != "https") {
      report_.error(path + ".scheme", absl::StrCat("expected http or https, got ", in_quotes(redirect.scheme)));
    }
    if (!redirect.host.empty() && !is_host(redirect.host)) {
      report_.error(path + ".host", absl::StrCat("expected a host such as a.example.com, got ",
                                                 in_quotes(redirect.host), "; its port is `port`"));
    }
    check_path_change(redirect, path);
    if (redirect.scheme.empty() && redirect.host.empty() && redirect.port == 0 && redirect.leaves_path()) {
      report_.error(path,
                    "expected `scheme`, `host`, `port`, `path`, `prefix` or `regex`: it redirects to the same URL");
    }
  }

  void check_rewrite(const Rewrite& rewrite, const std::string& path) {
    check_forwards(path);
    if (rewrite == Rewrite()) report_.error(path, "expected `path`, `prefix`, `regex` or `host`");
    if (!rewrite.host.empty() && !is_authority(rewrite.host)) {
      report_.error(path + ".host", absl::StrCat("expected a host such as a.example.com, or a.example.com:8080, got ",
                                                 in_quotes(rewrite.host)));
    }
    check_path_change(rewrite, path);
  }

  void check_split(const std::string& path) {
    constexpr size_t kMostItems = 1000;
    if (route_.split.size() > kMostItems) {
      report_.error(path, absl::StrCat("expected up to ", kMostItems, " items, got ", route_.split.size()));
    }
    uint64_t weights = 0;
    for (size_t i = 0; i < route_.split.size(); ++i) {
      const SplitTarget& part = route_.split[i];
      weights += part.weight;
      check_field_changes(part.request_headers, item_path(path, i) + ".request_headers", report_);
      check_field_changes(part.response_headers, item_path(path, i) + ".response_headers", report_);
    }
    if (!route_.split.empty() && weights == 0) report_.error(path, "all weights are 0: no upstream gets the requests");
  }

  void check_buffer(const Buffering& buffer, const std::string& path) {
    check_forwards(path);
    if (buffer == Buffering()) report_.error(path, "expected `requests` or `responses`, with a size");
  }

  void check_retry(const Retry& retry, const std::string& path) {
    check_forwards(path);
    if (retry.backoff > retry.max_backoff) {
      report_.error(path + ".backoff",
                    absl::StrCat("must not be above max_backoff (", print_duration(retry.max_backoff), "), got ",
                                 print_duration(retry.backoff)));
    }
    const bool on_timeout = std::find(retry.on.begin(), retry.on.end(), RetryOn::kTimeout) != retry.on.end();
    if (on_timeout != (retry.try_timeout.count() > 0)) {
      report_.error(path, on_timeout ? "`on: timeout` needs a `try_timeout`"
                                     : "`try_timeout` needs `timeout` in `on`; else write `response_timeout`");
    }
    for (size_t i = 0; i < retry.retriable_status_codes.size(); ++i) {
      const uint32_t status = retry.retriable_status_codes[i];
      if (status >= 400 && status <= 599) continue;
      report_.error(item_path(path + ".retriable_status_codes", i),
                    absl::StrCat("expected a status from 400 to 599, got ", status));
    }
    check_hedge(retry, path + ".hedge_after");
  }

  void check_hedge(const Retry& retry, const std::string& path) {
    if (retry.hedge_after.count() == 0) return;
    if (retry.attempts < 2) report_.error(path, "needs `attempts` of 2 or more: the second endpoint is one of them");
    if (retry.try_timeout.count() > 0 && retry.hedge_after >= retry.try_timeout) {
      report_.error(path, absl::StrCat("must be below try_timeout (", print_duration(retry.try_timeout), "), got ",
                                       print_duration(retry.hedge_after)));
    }
  }

  void check_forwards(const std::string& path) {
    if (route_.forward.empty() && route_.split.empty())
      report_.error(path, "needs `forward`: otherwise no request is forwarded");
  }

  void check_path_change(const PathChange& change, const std::string& path) {
    const int given = (change.path.empty() ? 0 : 1) + (change.prefix.empty() ? 0 : 1) + (change.regex.is_set() ? 1 : 0);
    if (given > 1) report_.error(path, "`path`, `prefix` and `regex` exclude each other");
    if (!change.path.empty()) check_path(change.path, path + ".path");
    check_substitution(change, path);
    if (change.prefix.empty()) return;
    check_path(change.prefix, path + ".prefix");
    if (!route_.match || !route_.match->path || route_.match->path->prefix.empty()) {
      report_.error(path + ".prefix", "needs `match: { path: { prefix: PATH } }`, which it replaces");
    }
  }

  void check_substitution(const PathChange& change, const std::string& path) {
    const std::string& text = change.substitution;
    if (change.regex.is_set() == text.empty()) {
      return report_.error(path, text.empty() ? "`regex` needs `substitution`, the new path"
                                              : "`substitution` needs `regex`, whose groups it may use");
    }
    if (text.empty()) return;
    const auto plain = [](char c) { return c > ' ' && c < '\x7f' && c != '?' && c != '#'; };
    if (!std::all_of(text.begin(), text.end(), plain)) {
      return report_.error(path + ".substitution",
                           absl::StrCat("expected a path without a query, got ", in_quotes(text)));
    }
    if (const absl::Status accepted = change.regex.accepts(text); !accepted.ok()) {
      report_.error(path + ".substitution", absl::StrCat(in_quotes(text), ": ", accepted.message()));
    }
  }

  const HttpRoute& route_;
  const Paths& paths_;
  Report& report_;
};

}  // namespace

void check_route_values(const HttpRoute& route, const Paths& paths, const std::string& path, Report& report) {
  RouteChecker(route, paths, report).check(path);
}

}  // namespace sluice::config
