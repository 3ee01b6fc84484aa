#include "proxy/config/load/validate_http.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <string_view>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "proxy/common/suggestions.h"
#include "proxy/common/token.h"
#include "proxy/compression/media_type.h"
#include "proxy/config/load/scalar.h"
#include "proxy/config/load/validate_log.h"
#include "proxy/config/model/name.h"
#include "proxy/http/message/message_rules.h"

namespace sluice::config {
namespace {

// ---- Fields and content types ----

// Header fields that cannot be changed: connection-specific fields (RFC 9110 section 7.6.1), fields that determine the
// length of a message, and the fields of a websocket handshake that differ per connection.
constexpr std::string_view kUnchangeableFields[] = {"connection",
                                                    "content-length",
                                                    "http2-settings",
                                                    "keep-alive",
                                                    "proxy-connection",
                                                    "sec-websocket-accept",
                                                    "sec-websocket-key",
                                                    "te",
                                                    "trailer",
                                                    "transfer-encoding",
                                                    "upgrade"};

// Checks the name of a field to be added or changed: it must be neither connection-specific nor a field that determines
// the length of a message.
void check_field_name(const FieldName& field, const std::string& path, Report& report) {
  const std::string& name = field.text();
  if (name == "host") return report.error(path, "Host is no field here: write `rewrite: { host: NAME }`");
  const auto* const end = std::end(kUnchangeableFields);
  if (std::find(std::begin(kUnchangeableFields), end, name) == end) return;
  report.error(path, absl::StrCat(in_quotes(name),
                                  " is the proxy's own affair: it belongs to one connection, or says how long a "
                                  "message is"));
}

// ---- Access ----

// Header fields that no claim may set, because they control the connection, the length of a message, or its routing.
constexpr std::string_view kFieldsNotFromClaims[] = {"connection", "content-length",    "host",   "te",
                                                     "trailer",    "transfer-encoding", "upgrade"};

// Whether a quoted string in WWW-Authenticate can contain `realm` without escapes.
bool is_realm(std::string_view realm) {
  const auto plain = [](char c) { return c >= ' ' && c < '\x7f' && c != '"' && c != '\\'; };
  return !realm.empty() && realm.size() <= 100 && std::all_of(realm.begin(), realm.end(), plain);
}

void check_jwt(const JwtAuth& jwt, const std::string& path, Report& report) {
  if (jwt.jwks_file.empty()) report.error(path + ".jwks_file", "expected the name of a file");
  if (!jwt.scheme.empty() && !http1::is_token(jwt.scheme)) {
    report.error(path + ".scheme", absl::StrCat("expected a word such as Bearer, got ", in_quotes(jwt.scheme)));
  }
  check_cookie_name(jwt.cookie, path + ".cookie", report);
  for (size_t i = 0; i < jwt.audience.size(); ++i) {
    if (jwt.audience[i].empty()) report.error(item_path(path + ".audience", i), "expected a name, got \"\"");
  }
  for (size_t i = 0; i < jwt.claims.size(); ++i) {
    const std::string& header = jwt.claims[i].header.text();
    if (jwt.claims[i].claim.empty()) {
      report.error(item_path(path + ".claims", i) + ".claim", "expected the name of a claim");
    }
    if (header == jwt.header.text() || std::find(std::begin(kFieldsNotFromClaims), std::end(kFieldsNotFromClaims),
                                                 header) != std::end(kFieldsNotFromClaims)) {
      report.error(item_path(path + ".claims", i) + ".header",
                   absl::StrCat(in_quotes(header), " is reserved: expected a field such as x-user"));
    }
  }
}

// What the proxy itself tells an authorizer.
constexpr std::string_view kAuthorizerFields[] = {"x-forwarded-for", "x-forwarded-host", "x-forwarded-method",
                                                  "x-forwarded-proto", "x-forwarded-uri"};

// Fields that `forward_auth` copies from one message into another.
void check_copied_fields(const std::vector<FieldName>& fields, const std::string& path, Report& report) {
  for (size_t i = 0; i < fields.size(); ++i) {
    const std::string& name = fields[i].text();
    const auto is_it = [&](std::string_view other) { return name == other; };
    const bool unchangeable = std::any_of(std::begin(kUnchangeableFields), std::end(kUnchangeableFields), is_it);
    const bool told = std::any_of(std::begin(kAuthorizerFields), std::end(kAuthorizerFields), is_it);
    if (!unchangeable && !told && name != "host") continue;
    report.error(item_path(path, i),
                 absl::StrCat(in_quotes(name), " cannot be copied: it belongs to one message, or is set by the proxy"));
  }
}

// An origin as browsers send it (RFC 6454 section 6.2): a scheme, a host and an optional port, in lower case, without a
// path.
bool is_origin(std::string_view origin) {
  if (!absl::ConsumePrefix(&origin, "https://") && !absl::ConsumePrefix(&origin, "http://")) return false;
  const size_t colon = origin.ends_with(']') ? std::string_view::npos : origin.rfind(':');
  uint32_t port = 0;
  if (colon != std::string_view::npos &&
      (!absl::SimpleAtoi(origin.substr(colon + 1), &port) || port == 0 || port > 65535)) {
    return false;
  }
  const std::string_view host = origin.substr(0, colon);
  if (host.starts_with('[')) return Address::parse(absl::StrCat(host, ":1")).ok();
  const absl::StatusOr<HostPattern> pattern = HostPattern::parse(host);
  return pattern.ok() && pattern->text() == host && !pattern->is_deep();
}

// ---- Error pages, request ids and the names of routes ----

void check_request_id(const Http& http, const std::string& path, Report& report) {
  check_field_name(http.request_id->header, path + ".header", report);
  if (http.request_id->accept == TrustFrom::kTrusted && http.trusted_hops == 0 && http.trusted_proxies.empty()) {
    report.error(path + ".accept",
                 "`trusted` needs `trusted_proxies` or `trusted_hops`: otherwise no proxy is trusted");
  }
}

void check_error_body(const ErrorBody& error, const std::string& path, Report& report) {
  if (error.body.empty() == error.file.empty()) {
    report.error(path,
                 error.body.empty() ? "expected `body: TEXT` or `file: PATH`" : "`body` and `file` exclude each other");
  }
  check_content_type(error.content_type, path + ".content_type", report);
}

// Route names must be unique, because the log identifies a route by its name.
void check_route_names(const std::vector<HttpRoute>& routes, const std::string& path, Report& report) {
  std::map<std::string_view, size_t> seen;
  for (size_t i = 0; i < routes.size(); ++i) {
    const std::string& name = routes[i].name;
    if (name.empty()) continue;
    const std::string name_path = item_path(path, i) + ".name";
    if (!is_name(name)) {
      report.error(name_path, absl::StrCat("expected ", kNameRule, ", got ", in_quotes(name)));
      continue;
    }
    const auto [first, inserted] = seen.emplace(name, i);
    if (inserted) continue;
    report.error(name_path, absl::StrCat(in_quotes(name), " is already the name of ", item_path(path, first->second),
                                         "; names must be unique"));
  }
}

}  // namespace

// ---- Fields and content types ----

void check_content_type(const std::string& type, const std::string& path, Report& report) {
  const bool blank_ends = absl::StripAsciiWhitespace(type) != type;
  if (!type.empty() && !blank_ends && std::all_of(type.begin(), type.end(), absl::ascii_isprint)) return;
  report.error(path, absl::StrCat("expected a type such as text/html; charset=utf-8, got ", in_quotes(type)));
}

void check_field_changes(const std::vector<FieldChange>& changes, const std::string& path, Report& report) {
  for (size_t i = 0; i < changes.size(); ++i) {
    const FieldChange& change = changes[i];
    const std::string change_path = item_path(path, i);
    const int given = (change.set.empty() ? 0 : 1) + (change.add.empty() ? 0 : 1) + (change.remove ? 1 : 0);
    if (given != 1) {
      report.error(change_path, given == 0 ? "expected `set: VALUE`, `add: VALUE` or `remove: true`"
                                           : "`set`, `add` and `remove` exclude each other");
    }
    check_field_name(change.name, change_path + ".name", report);
  }
}

// ---- Access ----

void check_auth(const Auth& auth, const std::string& path, Report& report) {
  if (auth.basic.has_value() == auth.jwt.has_value()) {
    report.error(path, auth.basic ? "`basic` and `jwt` exclude each other" : "expected `basic` or `jwt`");
  }
  if (auth.basic && auth.basic->users_file.empty()) {
    report.error(path + ".basic.users_file", "expected the name of a file");
  }
  if (auth.basic && !is_realm(auth.basic->realm)) {
    report.error(path + ".basic.realm", "expected up to 100 characters of ASCII without quotes and backslashes");
  }
  if (auth.jwt) check_jwt(*auth.jwt, path + ".jwt", report);
}

void check_forward_auth(const ForwardAuth& auth, const std::string& path, Report& report) {
  const bool printable = std::all_of(auth.path.begin(), auth.path.end(), absl::ascii_isgraph);
  if (!auth.path.starts_with('/') || !printable || absl::StrContains(auth.path, '#')) {
    report.error(path + ".path", absl::StrCat("expected a path such as /oauth2/auth, got ", in_quotes(auth.path)));
  }
  if (!auth.host.empty() && !is_authority(auth.host)) {
    report.error(path + ".host", absl::StrCat("expected a host such as auth.example.com, got ", in_quotes(auth.host)));
  }
  check_copied_fields(auth.request_headers, path + ".request_headers", report);
  check_copied_fields(auth.response_headers, path + ".response_headers", report);
}

void check_cors(const Cors& cors, const std::string& path, Report& report) {
  for (size_t i = 0; i < cors.origins.size(); ++i) {
    const std::string& origin = cors.origins[i];
    if (origin == "*" && cors.credentials) {
      report.error(
          item_path(path + ".origins", i),
          "`*` with `credentials: true` would let every page on the web ask in the name of your users: list the "
          "origins");
    } else if (origin != "*" && !is_origin(origin)) {
      report.error(
          item_path(path + ".origins", i),
          absl::StrCat("expected an origin such as https://a.example.com or https://*.example.com, in lower case "
                       "and without a path, got ",
                       in_quotes(origin)));
    }
  }
  for (size_t i = 0; cors.credentials && i < cors.origin_regex.size(); ++i) {
    if (!cors.origin_regex[i].is_set() || !cors.origin_regex[i].fits("https://a-page-of-nobody.invalid")) continue;
    report.error(item_path(path + ".origin_regex", i),
                 "with `credentials: true` this would let every page on the web ask in the name of your users");
  }
  for (size_t i = 0; i < cors.methods.size(); ++i) {
    const std::string& method = cors.methods[i];
    if (http1::is_token(method) && absl::AsciiStrToUpper(method) == method) continue;
    report.error(item_path(path + ".methods", i),
                 absl::StrCat("expected a method such as PUT, in capitals, got ", in_quotes(method)));
  }
}

void check_cookie_name(const std::string& cookie, const std::string& path, Report& report) {
  if (cookie.empty() || http1::is_token(cookie)) return;
  report.error(path, absl::StrCat("expected the name of a cookie, got ", in_quotes(cookie)));
}

// ---- Compression ----

void check_compression(const Compression& compression, const std::string& path, Report& report) {
  for (size_t i = 0; i < compression.types.size(); ++i) {
    if (is_media_type_pattern(compression.types[i])) continue;
    report.error(item_path(path + ".types", i),
                 absl::StrCat("expected a media type such as text/html, text/* or application/*+json, got ",
                              in_quotes(compression.types[i])));
  }
  const auto begin = compression.codings.begin(), end = compression.codings.end();
  for (auto at = begin; at != end; ++at) {
    if (std::find(begin, at, *at) == at) continue;
    report.error(item_path(path + ".codings", static_cast<size_t>(at - begin)),
                 absl::StrCat(in_quotes(Scalar<Coding>::print(*at)), " is a duplicate"));
  }
}

// ---- Tracing ----

void check_tracing(const Http& http, const std::string& path, Report& report) {
  if (http.trace_context == TraceContext::kOff) {
    report.error(
        path,
        "needs `trace_context: pass`, which records traces that clients began, or `make`, which begins traces, "
        "too");
  }
  check_otlp({http.tracing->path, http.tracing->service_name, "/v1/traces"}, path, report);
}

// ---- Error pages, request ids, the access log and the names of routes ----

void check_error_pages(const Http& http, const std::string& path, Report& report) {
  if (http.access_log) check_access_log(*http.access_log, LogSubject::kRequest, path + ".access_log", report);
  if (http.request_id) check_request_id(http, path + ".request_id", report);
  for (size_t i = 0; i < http.errors.size(); ++i) {
    check_error_body(http.errors[i], item_path(path + ".errors", i), report);
  }
  check_route_names(http.routes, path + ".routes", report);
}

}  // namespace sluice::config
