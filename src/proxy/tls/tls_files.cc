#include "proxy/tls/tls_files.h"

#include <openssl/ssl.h>

#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "alts_like/alts_like_handshake.h"
#include "proxy/tls/client_context.h"

namespace sluice {

namespace {

absl::Status said_of(std::string_view kind, std::string_view name, std::string_view key, const absl::Status& error) {
  return absl::Status(error.code(), absl::StrCat(kind, " \"", name, "\": ", key, ": ", error.message()));
}

// Takes `found` over, each with where it was found before it.
void add_warnings(std::string_view kind, std::string_view name, std::string_view key, std::vector<FileWarning>& found,
                  std::vector<FileWarning>& warnings) {
  for (FileWarning& warning : found) {
    warnings.push_back({absl::StrCat(kind, " \"", name, "\": ", key, ": ", warning.text), warning.fails_check});
  }
  found.clear();
}

// The TLS that ALTS by certificates begins with. Without tickets: each connection proves anew who is there.

config::ListenerTls tls_of(const config::ListenerAlts& alts) {
  config::ListenerTls tls;
  tls.certificates = alts.certificates;
  tls.alpn = {AltsLikeHandshake::kProtocol};
  tls.client_ca = alts.peer_ca;
  tls.client_certificate = config::ClientCertificate::kRequire;
  tls.min_version = config::TlsVersion::k13;
  tls.tickets = false;
  return tls;
}

config::UpstreamTls tls_of(const config::Alts& alts) {
  config::UpstreamTls tls;
  tls.ca = alts.peer_ca;  // Who it is, AltsLikeHandshake looks at.
  tls.certificate = alts.certificates.front();
  tls.alpn = {AltsLikeHandshake::kProtocol};
  tls.min_version = config::TlsVersion::k13;
  return tls;
}

}  // namespace

absl::StatusOr<TlsContexts> read_tls_files(const config::Config& config, const TlsShared& shared) {
  TlsContexts contexts;
  std::vector<FileWarning> found;
  for (const config::Listener& listener : config.listeners) {
    contexts.listeners.emplace_back();
    const bool by_alts = listener.alts && !listener.alts->certificates.empty();
    if (!listener.tls && !by_alts) continue;
    const std::string_view key = by_alts ? "alts" : "tls";
    auto made = make_server_context(listener.name, by_alts ? tls_of(*listener.alts) : *listener.tls, shared, found);
    if (!made.ok()) return said_of("listener", listener.name, key, made.status());
    add_warnings("listener", listener.name, key, found, contexts.warnings);
    contexts.listeners.back() = *std::move(made);
  }
  for (const config::Upstream& upstream : config.upstreams) {
    contexts.upstreams.emplace_back();
    const bool by_alts = upstream.alts && !upstream.alts->certificates.empty();
    if (!upstream.tls && !by_alts) continue;
    const std::string_view key = by_alts ? "alts" : "tls";
    auto made = make_client_context(by_alts ? tls_of(*upstream.alts) : *upstream.tls, found);
    if (!made.ok()) return said_of("upstream", upstream.name, key, made.status());
    add_warnings("upstream", upstream.name, key, found, contexts.warnings);
    contexts.upstreams.back() = *std::move(made);
  }
  return contexts;
}

}  // namespace sluice
