#include "proxy/tls/tls_files.h"

#include <openssl/ssl.h>

#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "alts_like/alts_like_handshake.h"
#include "proxy/tls/client_context.h"

namespace sluice {

namespace {

absl::Status error_at(std::string_view kind, std::string_view name, std::string_view key, const absl::Status& error) {
  return absl::Status(error.code(), absl::StrCat(kind, " \"", name, "\": ", key, ": ", error.message()));
}

// Moves `found` to `warnings`, and prefixes each text with its place in the configuration.
void add_warnings(std::string_view kind, std::string_view name, std::string_view key, std::vector<FileWarning>& found,
                  std::vector<FileWarning>& warnings) {
  for (FileWarning& warning : found) {
    warnings.push_back({absl::StrCat(kind, " \"", name, "\": ", key, ": ", warning.text), warning.fails_check});
  }
  found.clear();
}

// The TLS settings of ALTS with certificates. There are no tickets, so each connection proves the identities anew.

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
  tls.ca = alts.peer_ca;  // AltsLikeHandshake checks the peer's names.
  tls.certificate = alts.certificates.front();
  tls.alpn = {AltsLikeHandshake::kProtocol};
  tls.min_version = config::TlsVersion::k13;
  return tls;
}

template <class Side>
bool by_alts(const Side& side) {
  return side.alts && !side.alts->certificates.empty();
}

template <class Side>
std::string_view key_of(const Side& side) {
  return by_alts(side) ? "alts" : "tls";
}

}  // namespace

absl::StatusOr<bssl::UniquePtr<SSL_CTX>> read_tls_files_of(const config::Listener& listener, const TlsShared& shared,
                                                           std::vector<FileWarning>& warnings) {
  if (by_alts(listener)) return make_server_context(listener.name, tls_of(*listener.alts), shared, warnings);
  if (listener.tls) return make_server_context(listener.name, *listener.tls, shared, warnings);
  return nullptr;
}

absl::StatusOr<bssl::UniquePtr<SSL_CTX>> read_tls_files_of(const config::Upstream& upstream,
                                                           std::vector<FileWarning>& warnings) {
  if (by_alts(upstream)) return make_client_context(tls_of(*upstream.alts), warnings);
  if (upstream.tls) return make_client_context(*upstream.tls, warnings);
  return nullptr;
}

absl::StatusOr<TlsContexts> read_tls_files(const config::Config& config, const TlsShared& shared) {
  TlsContexts contexts;
  std::vector<FileWarning> found;
  for (const config::Listener& listener : config.listeners) {
    auto made = read_tls_files_of(listener, shared, found);
    if (!made.ok()) return error_at("listener", listener.name, key_of(listener), made.status());
    add_warnings("listener", listener.name, key_of(listener), found, contexts.warnings);
    contexts.listeners.push_back(*std::move(made));
  }
  for (const config::Upstream& upstream : config.upstreams) {
    auto made = read_tls_files_of(upstream, found);
    if (!made.ok()) return error_at("upstream", upstream.name, key_of(upstream), made.status());
    add_warnings("upstream", upstream.name, key_of(upstream), found, contexts.warnings);
    contexts.upstreams.push_back(*std::move(made));
  }
  return contexts;
}

}  // namespace sluice
