#include "proxy/config/load/validate_admin.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "proxy/common/suggestions.h"

namespace sluice::config {
namespace {

// Whether only processes of this machine can connect to it.
bool is_local(const Address& address) {
  if (address.kind() == Address::Kind::kUnix) return true;
  static const std::array<Cidr, 2> kLoopback = {*Cidr::parse("127.0.0.0/8"), *Cidr::parse("::1")};
  return std::any_of(kLoopback.begin(), kLoopback.end(), [&](const Cidr& each) { return each.contains(address); });
}

// Whether the kernel refuses to listen at both.
bool collide(const Address& a, const Address& b) {
  if (a.kind() == Address::Kind::kUnix || b.kind() == Address::Kind::kUnix) return a == b;
  if (a.port() == 0 || a.port() != b.port()) return false;
  return a == b || (a.is_wildcard() && (a.kind() == Address::Kind::kIp6 || a.kind() == b.kind())) ||
         (b.is_wildcard() && (b.kind() == Address::Kind::kIp6 || a.kind() == b.kind()));
}

}  // namespace

void check_admin(const Config& config, Report& report) {
  if (!config.admin) return;
  const Admin& admin = *config.admin;
  const std::string list = "admin.address";
  for (size_t i = 0; i < admin.addresses.size(); ++i) {
    const Address& address = admin.addresses[i];
    const std::string path = admin.addresses.size() == 1 ? list : item_path(list, i);
    if (!address.is_set()) {
      report.error(path, "expected an address");
      continue;
    }
    if (!is_local(address) && admin.token_file.empty()) {
      report.error(path, absl::StrCat(address.text(),
                                      " can be reached from other machines, which need a token: set "
                                      "`admin.token_file`, or use an address such as 127.0.0.1:9901"));
    } else if (!is_local(address)) {
      report.warn(path, absl::StrCat("the token and the responses pass ", address.text(),
                                     " unencrypted: use it in a trusted network only"));
    }
    const auto same = [&](const Address& other) { return other.is_set() && collide(address, other); };
    if (std::any_of(admin.addresses.begin(), admin.addresses.begin() + static_cast<ptrdiff_t>(i), same)) {
      report.error(path, absl::StrCat(address.text(), " is listed twice"));
    }
    for (const Listener& listener : config.listeners) {
      if (std::none_of(listener.addresses.begin(), listener.addresses.end(), same)) continue;
      report.error(path, absl::StrCat("listener ", in_quotes(listener.name), " already has ", address.text(),
                                      ", or all addresses with this port; use another port"));
    }
  }
}

}  // namespace sluice::config
