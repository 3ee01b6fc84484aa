#include "proxy/server/config_files.h"

#include "proxy/log/log_sink.h"

namespace sluice {

namespace {

void add_certificates(const std::vector<config::TlsCertificate>& certificates, std::vector<std::string>& files) {
  for (const config::TlsCertificate& each : certificates) {
    files.insert(files.end(), {each.chain, each.key, each.ocsp});
  }
}

void add_files_of(const config::ListenerTls& tls, std::vector<std::string>& files) {
  add_certificates(tls.certificates, files);
  files.push_back(tls.client_ca);
  files.insert(files.end(), tls.ticket_keys.begin(), tls.ticket_keys.end());
}

void add_files_of(const config::Listener& listener, std::vector<std::string>& files) {
  if (listener.tls) add_files_of(*listener.tls, files);
  if (listener.alts) {
    add_certificates(listener.alts->certificates, files);
    files.push_back(listener.alts->peer_ca);
  }
  if (!listener.http) return;
  for (const config::ErrorBody& each : listener.http->errors) files.push_back(each.file);
  for (const config::HttpRoute& route : listener.http->routes) {
    if (!route.auth) continue;
    if (route.auth->basic) files.push_back(route.auth->basic->users_file);
    if (route.auth->jwt) files.push_back(route.auth->jwt->jwks_file);
  }
}

void add_files_of(const config::Upstream& upstream, std::vector<std::string>& files) {
  if (upstream.tls) {
    files.push_back(upstream.tls->ca);
    if (upstream.tls->certificate) add_certificates({*upstream.tls->certificate}, files);
  }
  if (upstream.alts) {
    add_certificates(upstream.alts->certificates, files);
    files.push_back(upstream.alts->peer_ca);
  }
}

}  // namespace

std::vector<std::string> files_of(const config::Config& config) {
  std::vector<std::string> files;
  for (const config::Listener& listener : config.listeners) add_files_of(listener, files);
  for (const config::Upstream& upstream : config.upstreams) add_files_of(upstream, files);
  if (config.admin) files.push_back(config.admin->token_file);
  if (config.admin && config.admin->tls) add_files_of(*config.admin->tls, files);
  std::erase(files, "");
  return files;
}

std::vector<std::string> log_files_of(const config::Config& config) {
  std::vector<std::string> files;
  const LogDestination& to = config.log.to.destination();
  if (to.kind == LogDestination::Kind::kFile) files.push_back(to.path);
  for (const config::Listener& listener : config.listeners) {
    const config::AccessLog* const log = listener.access_log();
    if (!log || log->file == "stdout" || log->file == "stderr") continue;
    if (config::names_syslog(log->file) || config::names_otlp(log->file)) continue;
    files.push_back(log->file);
  }
  return files;
}

}  // namespace sluice
