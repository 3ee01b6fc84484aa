#include "proxy/config/model/server_name.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "proxy/common/suggestions.h"
#include "proxy/config/model/host_pattern.h"

namespace sluice::config {

namespace {

// No top-level domain is a number, so such a name is a mistyped address.
bool ends_with_number(std::string_view name) {
  const std::string_view last = name.substr(name.rfind('.') + 1);
  return std::all_of(last.begin(), last.end(), absl::ascii_isdigit);
}

}  // namespace

bool is_ip_address(const std::string& text) {
  if (text.find('\0') != std::string::npos) return false;
  in6_addr room;
  return inet_pton(AF_INET, text.c_str(), &room) == 1 || inet_pton(AF_INET6, text.c_str(), &room) == 1;
}

bool is_uri(std::string_view text) {
  const size_t colon = text.find("://");
  return colon != std::string_view::npos && colon > 0 && text.size() > colon + 3 &&
         absl::ascii_isalpha(static_cast<unsigned char>(text[0])) && std::all_of(text.begin(), text.end(), [](char c) {
           return absl::ascii_isgraph(static_cast<unsigned char>(c));
         });
}

absl::Status check_server_name(const std::string& text) {
  if (is_ip_address(text)) return absl::OkStatus();
  if (HostPattern::parse(text).ok() && text.front() != '*' && !ends_with_number(text)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("expected a host's name such as a.example.com, or an IP address, got ", in_quotes(text)));
}

}  // namespace sluice::config
