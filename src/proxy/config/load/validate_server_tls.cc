#include "proxy/config/load/validate_server_tls.h"

namespace sluice::config {

void check_server_tls(const ListenerTls& tls, const std::string& path, Report& report) {
  if (tls.client_certificate != ClientCertificate::kOff && tls.client_ca.empty()) {
    report.error(path + ".client_certificate", "needs `client_ca`, the authorities that certificates may come from");
  }
  if (tls.client_certificate == ClientCertificate::kOff && !tls.client_ca.empty()) {
    report.error(path + ".client_ca", "has no effect without `client_certificate: request` or `require`");
  }
  if (!tls.tickets && !tls.ticket_keys.empty()) {
    report.error(path + ".ticket_keys", "has no effect with `tickets: false`");
  }
}

}  // namespace sluice::config
