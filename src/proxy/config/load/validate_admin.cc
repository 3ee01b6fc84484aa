#include "proxy/config/load/validate_admin.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "proxy/common/suggestions.h"
#include "proxy/config/load/validate_server_tls.h"

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

void check_admin_tls(const Admin& admin, Report& report) {
  const std::string path = "admin.tls";
  check_server_tls(*admin.tls, path, report);
  for (size_t i = 0; i < admin.tls->alpn.size(); ++i) {
    if (admin.tls->alpn[i] == "http/1.1") continue;
    report.error(item_path(path + ".alpn", i),
                 absl::StrCat("the admin listener speaks http/1.1 only, got ", in_quotes(admin.tls->alpn[i])));
  }
  if (admin.tls->max_handshakes != ListenerTls().max_handshakes) {
    report.error(path + ".max_handshakes", "has no effect here: `admin.max_connections` bounds handshakes, too");
  }
  const auto is_unix = [](const Address& each) { return each.kind() == Address::Kind::kUnix; };
  if (std::all_of(admin.addresses.begin(), admin.addresses.end(), is_unix)) {
    report.error(path, "has no effect: all addresses are Unix sockets, which are without TLS");
  }
}

}  // namespace

void check_admin(const Config& config, Report& report) {
  if (!config.admin) return;
  const Admin& admin = *config.admin;
  if (admin.tls) check_admin_tls(admin, report);
  const std::string list = "admin.address";
  for (size_t i = 0; i < admin.addresses.size(); ++i) {
    const Address& address = admin.addresses[i];
    const std::string path = admin.addresses.size() == 1 ? list : item_path(list, i);
    if (!address.is_set()) {
      report.error(path, "expected an address");
      continue;
    }
    const bool certified = admin.tls && admin.tls->client_certificate == ClientCertificate::kRequire;
    if (!is_local(address) && admin.token_file.empty() && !certified) {
      report.error(path, absl::StrCat(address.text(),
                                      " can be reached from other machines, which need a token or a certificate: set "
                                      "`admin.token_file`, or `admin.tls` with `client_certificate: require`, or use "
                                      "an address such as 127.0.0.1:9901"));
    } else if (!is_local(address) && !admin.tls) {
      report.warn(path, absl::StrCat("the token and the responses pass ", address.text(),
                                     " unencrypted: set `admin.tls`, or use it in a trusted network only"));
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
