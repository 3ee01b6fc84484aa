#include "proxy/config/load/validate_access.h"

#include <algorithm>
#include <iterator>
#include <string_view>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "proxy/common/suggestions.h"
#include "proxy/common/token.h"

namespace sluice::config {
namespace {

// Header fields that no claim may set, because they control the connection, the length of a message, or its routing.
constexpr std::string_view kReservedFields[] = {"connection", "content-length",    "host",   "te",
                                                "trailer",    "transfer-encoding", "upgrade"};

std::string item(const std::string& list, size_t index) { return absl::StrCat(list, "[", index, "]"); }

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
  if (!jwt.cookie.empty() && !http1::is_token(jwt.cookie)) {
    report.error(path + ".cookie", absl::StrCat("expected the name of a cookie, got ", in_quotes(jwt.cookie)));
  }
  for (size_t i = 0; i < jwt.audience.size(); ++i) {
    if (jwt.audience[i].empty()) report.error(item(path + ".audience", i), "expected a name, got \"\"");
  }
  for (size_t i = 0; i < jwt.claims.size(); ++i) {
    const std::string& header = jwt.claims[i].header.text();
    if (jwt.claims[i].claim.empty()) report.error(item(path + ".claims", i) + ".claim", "expected the name of a claim");
    if (header == jwt.header.text() ||
        std::find(std::begin(kReservedFields), std::end(kReservedFields), header) != std::end(kReservedFields)) {
      report.error(item(path + ".claims", i) + ".header",
                   absl::StrCat(in_quotes(header), " is reserved: expected a field such as x-user"));
    }
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
  return pattern.ok() && pattern->text() == host;
}

}  // namespace

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

void check_cors(const Cors& cors, const std::string& path, Report& report) {
  for (size_t i = 0; i < cors.origins.size(); ++i) {
    const std::string& origin = cors.origins[i];
    if (origin == "*" && cors.credentials) {
      report.error(
          item(path + ".origins", i),
          "`*` with `credentials: true` would let every page on the web ask in the name of your users: list the "
          "origins");
    } else if (origin != "*" && !is_origin(origin)) {
      report.error(
          item(path + ".origins", i),
          absl::StrCat("expected an origin such as https://a.example.com or https://*.example.com, in lower case "
                       "and without a path, got ",
                       in_quotes(origin)));
    }
  }
  for (size_t i = 0; i < cors.methods.size(); ++i) {
    const std::string& method = cors.methods[i];
    if (http1::is_token(method) && absl::AsciiStrToUpper(method) == method) continue;
    report.error(item(path + ".methods", i),
                 absl::StrCat("expected a method such as PUT, in capitals, got ", in_quotes(method)));
  }
}

}  // namespace sluice::config
