#include "proxy/transport/handshakes.h"

#include <openssl/ssl.h>

#include <memory>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "alts_like/alts_like_handshake.h"
#include "proxy/alts/alts_handshake.h"
#include "proxy/alts/alts_options.h"
#include "proxy/config/model/server_name.h"
#include "proxy/log/run_log.h"
#include "proxy/tls/client_context.h"
#include "proxy/tls/key_signer.h"

namespace sluice {

namespace {

// `endpoint_name`: null on a listener, and empty where an endpoint has only an address.
void make_alts_handshake(const config::Alts& alts, SSL_CTX* context, const std::string* endpoint_name,
                         HandshakerServices& handshakers, const Socket& socket, Handshaking& handshaking) {
  const bool is_client = endpoint_name != nullptr;
  if (alts.handshaker.is_set()) {
    std::string name = is_client ? *endpoint_name : std::string();
    handshaking.handshake = std::make_unique<AltsHandshake>(
        handshakers.at(alts.handshaker), alts_options(alts, is_client, std::move(name), socket.fd()), handshaking.step);
    return;
  }
  const TlsHandshake::Side side = is_client ? TlsHandshake::Side::kClient : TlsHandshake::Side::kServer;
  auto made = std::make_unique<AltsLikeHandshake>(
      context, side, AltsLikeHandshake::Options{alts.target_identities, alts.max_frame_size.bytes});
  if (!is_client) KeySigner::wake(made->ssl(), handshaking.step);
  handshaking.handshake = std::move(made);
}

}  // namespace

void make_client_handshake(const config::Listener& listener, bssl::UniquePtr<SSL_CTX> context,
                           HandshakerServices& handshakers, const Socket& socket, Handshaking& handshaking,
                           std::unique_ptr<HelloGate> gate) {
  if (const auto& alts = listener.alts) {
    return make_alts_handshake(*alts, context.get(), nullptr, handshakers, socket, handshaking);
  }
  auto made = std::make_unique<TlsHandshake>(context.get(), TlsHandshake::Side::kServer);
  KeySigner::wake(made->ssl(), handshaking.step);
  if (gate) made->set_gate(std::move(gate));
  handshaking.handshake = std::move(made);
}

uint16_t make_endpoint_handshake(const UpstreamState& upstream, uint32_t endpoint, HandshakerServices& handshakers,
                                 SessionCache& sessions, const Socket& socket, Handshaking& handshaking) {
  const CurrentContext::Taken current = upstream.tls.take();
  if (const auto& alts = upstream.config().alts) {
    const uint32_t index = upstream.slots().configured(endpoint);
    std::string name;
    if (upstream.slots().is_resolved(endpoint) && upstream.config().endpoints[index].address.is_name()) {
      name = upstream.config().endpoints[index].address.text();
    }
    make_alts_handshake(*alts, current.context.get(), &name, handshakers, socket, handshaking);
    return current.generation;
  }
  auto made = std::make_unique<TlsHandshake>(current.context.get(), TlsHandshake::Side::kClient);
  expect_server(made->ssl(), *upstream.config().tls);
  if (const auto session = sessions.take(endpoint, current.generation)) SSL_set_session(made->ssl(), session.get());
  handshaking.tls = made.get();
  handshaking.handshake = std::move(made);
  return current.generation;
}

std::string describe_failure(const config::Upstream& upstream, std::string_view error) {
  std::string text = absl::StrCat(upstream.alts ? "ALTS" : "TLS",
                                  " failed: ", error.empty() ? "it closed during the handshake" : error);
  // The handshake itself knows only names that it sends: not addresses, nor `verify_names`.
  if (!upstream.tls || !absl::StrContains(error, "CERTIFICATE_VERIFY_FAILED")) return text;
  if (const std::vector<std::string>& names = upstream.tls->verify_names; !names.empty()) {
    absl::StrAppend(&text, "; expected \"", absl::StrJoin(names, "\" or \""), "\"");
  } else if (config::is_ip_address(upstream.tls->server_name)) {
    absl::StrAppend(&text, "; expected \"", upstream.tls->server_name, "\"");
  }
  return text;
}

std::string describe_slow_handshake(const config::Upstream& upstream, const Transport& transport) {
  return describe_failure(
      upstream, absl::StrCat("the handshake was not complete after ", config::print_duration(upstream.connect_timeout),
                             ", waiting for ", transport.awaited()));
}

void log_failure(const Worker& worker, const config::Listener& listener, std::string_view client, bool is_alts,
                 std::string_view whom, std::string_view error) {
  log_client(worker, listener, client, absl::StrCat(is_alts ? "ALTS" : "TLS", " with ", whom, " failed: ", error));
}

void log_client(const Worker& worker, const config::Listener& listener, std::string_view client,
                std::string_view what) {
  static thread_local LogLimit limit;
  if (!log_enabled(LogLevel::kInfo) || !log_admits(limit, worker.now_ms())) return;
  log_line(LogLevel::kInfo,
           absl::StrCat("listener \"", listener.name, "\", client ", client, ": ", what, left_out_text(limit)),
           {.listener = listener.name, .client = client, .reason = what});
}

}  // namespace sluice
