#include "proxy/admin/request_origin.h"

#include <arpa/inet.h>
#include <sys/socket.h>

#include <cstddef>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/strip.h"

namespace sluice {

bool is_own_host(std::string_view authority) {
  if (authority.starts_with('[')) return true;
  const std::string host(authority.substr(0, authority.rfind(':')));
  in_addr ip4;
  return host.empty() || absl::EqualsIgnoreCase(host, "localhost") || inet_pton(AF_INET, host.c_str(), &ip4) == 1;
}

// Pages of files and of frames without an origin send `null`.
bool is_other_origin(const Head& head, bool secured) {
  const size_t at = head.fields.find("origin");
  if (at == Fields::npos) return false;
  if (head.fields.find("origin", at + 1) != Fields::npos) return true;
  std::string_view origin = head.fields[at].value;
  return !absl::ConsumePrefix(&origin, secured ? "https://" : "http://") ||
         !absl::EqualsIgnoreCase(origin, head.authority());
}

bool is_cross_site(const Head& head) {
  const size_t at = head.fields.find("sec-fetch-site");
  if (at == Fields::npos) return false;
  const std::string_view site = head.fields[at].value;
  if (site == "same-origin" || site == "none") return false;
  const bool reads = head.method() == "GET" || head.method() == "HEAD";
  return !reads || head.fields.value("sec-fetch-mode") != "navigate" ||
         head.fields.value("sec-fetch-dest") != "document";
}

}  // namespace sluice
