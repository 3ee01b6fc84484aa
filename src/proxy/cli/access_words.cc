#include "proxy/cli/access_words.h"

#include <unistd.h>

#include <array>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "proxy/auth/credentials.h"
#include "proxy/auth/listener_access.h"

namespace sluice {
namespace {

// Why an address is refused; empty if it is allowed.
std::string why_not_from(const std::vector<config::Cidr>& allow, const std::vector<config::Cidr>& deny,
                         const ClientIp& client, std::string_view whose) {
  if (admits_address(allow, deny, client)) return "";
  std::array<char, ClientIp::kTextBytes> ip;
  const std::string_view text = client.text(ip);
  return admits_address({}, deny, client) ? absl::StrCat(text, " is not in `allow` of the ", whose)
                                          : absl::StrCat(text, " is in `deny` of the ", whose);
}

std::string proof_words(const config::Auth& auth) {
  if (auth.basic) return absl::StrCat("a password, by ", auth.basic->users_file);
  const config::JwtAuth& jwt = *auth.jwt;
  return absl::StrCat("a token, by ", jwt.jwks_file, jwt.issuer.empty() ? "" : absl::StrCat(", of ", jwt.issuer),
                      jwt.audience.empty() ? "" : absl::StrCat(", for ", absl::StrJoin(jwt.audience, " or ")));
}

bool has_proof(const config::Auth& auth, const Fields& fields) {
  return auth.jwt ? find_token(*auth.jwt, fields).has_value() : fields.find("authorization") != Fields::npos;
}

}  // namespace

AccessWords access_words(const config::Http& http, const config::HttpRoute* route, const ClientIp& client,
                         const Head& request) {
  AccessWords words;
  if (route && route->cors) {
    const std::string_view origin = request.fields.value("origin");
    const bool allowed = CorsPolicy(*route->cors).allows(origin);
    const bool preflight = CorsPolicy::is_preflight(request);
    words.lines.emplace_back("cors", origin.empty() ? "not a cross-origin request"
                                                    : absl::StrCat(preflight ? "a preflight of " : "", origin,
                                                                   allowed ? " may" : " may not"));
    if (preflight) {
      words.response = allowed ? "204" : "403, forbidden";
      return words;
    }
  }
  std::string why = why_not_from(http.allow, http.deny, client, "listener");
  if (why.empty() && route) why = why_not_from(route->allow, route->deny, client, "route");
  if (!why.empty()) {
    words.lines.emplace_back("access", std::move(why));
    words.response = "403, forbidden";
    return words;
  }
  if (route && route->maintenance) {
    const bool down = ::access(route->maintenance->file.c_str(), F_OK) == 0;
    words.lines.emplace_back("maintenance",
                             absl::StrCat(route->maintenance->file, down ? " exists" : " does not exist"));
    if (down) {
      words.response = "503, down for maintenance";
      return words;
    }
  }
  if (!route || !route->auth) return words;
  const bool proof = has_proof(*route->auth, request.fields);
  words.lines.emplace_back("access",
                           absl::StrCat("needs ", proof_words(*route->auth), proof ? "; assumed valid here" : ""));
  if (!proof) words.response = "401, with WWW-Authenticate";
  return words;
}

}  // namespace sluice
