#include "proxy/transport/handshakes.h"

#include <openssl/ssl.h>

#include <cstdio>
#include <memory>
#include <string>
#include <utility>

#include "alts_like/alts_like_handshake.h"
#include "proxy/alts/alts_handshake.h"
#include "proxy/alts/alts_options.h"
#include "proxy/listener/listener_state.h"
#include "proxy/tls/client_context.h"
#include "proxy/tls/key_signer.h"

namespace sluice {

namespace {

void make_alts_handshake(const config::Alts& alts, SSL_CTX* context, TlsHandshake::Side side,
                         HandshakerServices& handshakers, const Socket& socket, Handshaking& handshaking) {
  const bool is_client = side == TlsHandshake::Side::kClient;
  if (alts.handshaker.is_set()) {
    handshaking.handshake = std::make_unique<AltsHandshake>(
        handshakers.at(alts.handshaker), alts_options(alts, is_client, socket.fd()), handshaking.step);
    return;
  }
  auto made = std::make_unique<AltsLikeHandshake>(
      context, side, AltsLikeHandshake::Options{alts.target_identities, alts.max_frame_size.bytes});
  if (!is_client) KeySigner::wake(made->ssl(), handshaking.step);
  handshaking.handshake = std::move(made);
}

}  // namespace

void make_client_handshake(const ListenerState& listener, HandshakerServices& handshakers, const Socket& socket,
                           Handshaking& handshaking) {
  const bssl::UniquePtr<SSL_CTX> context = listener.tls.take().context;
  if (const auto& alts = listener.config.alts) {
    return make_alts_handshake(*alts, context.get(), TlsHandshake::Side::kServer, handshakers, socket, handshaking);
  }
  auto made = std::make_unique<TlsHandshake>(context.get(), TlsHandshake::Side::kServer);
  KeySigner::wake(made->ssl(), handshaking.step);
  handshaking.handshake = std::move(made);
}

uint16_t make_endpoint_handshake(const UpstreamState& upstream, uint32_t endpoint, HandshakerServices& handshakers,
                                 SessionCache& sessions, const Socket& socket, Handshaking& handshaking) {
  const CurrentContext::Taken current = upstream.tls.take();
  if (const auto& alts = upstream.config().alts) {
    make_alts_handshake(*alts, current.context.get(), TlsHandshake::Side::kClient, handshakers, socket, handshaking);
    return current.generation;
  }
  auto made = std::make_unique<TlsHandshake>(current.context.get(), TlsHandshake::Side::kClient);
  expect_server(made->ssl(), *upstream.config().tls);
  if (const auto session = sessions.take(endpoint, current.generation)) SSL_set_session(made->ssl(), session.get());
  handshaking.tls = made.get();
  handshaking.handshake = std::move(made);
  return current.generation;
}

void log_failure(const Worker& worker, const config::Listener& listener, const PeerAddress& client, bool is_alts,
                 std::string_view whom, std::string_view error) {
  constexpr uint32_t kPerSecond = 10;
  static thread_local uint64_t second = 0;
  static thread_local uint32_t logged = 0;
  const uint64_t now_s = worker.now_ms() / 1000;
  if (std::exchange(second, now_s) != now_s) logged = 0;
  if (++logged > kPerSecond) return;
  std::fprintf(stderr, "sluice: listener \"%s\", client %s: %s with %s failed: %s\n", listener.name.c_str(),
               text_of(client).c_str(), is_alts ? "ALTS" : "TLS", std::string(whom).c_str(),
               std::string(error).c_str());
}

}  // namespace sluice
