// The TLS handshakes of a session.
#include <algorithm>
#include <cctype>
#include <cstdio>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "alts_like/client_hello.h"
#include "net/worker.h"
#include "proxy/l4/acceptor.h"
#include "proxy/l4/session.h"

namespace sluice {

void L4Session::begin_client_handshake() {
  tls_ = std::make_unique<SessionTls>();
  tls_->client.handshake = std::make_unique<TlsHandshake>(acceptor_.listener().tls->get(), TlsHandshake::Side::kServer);
  state_ = State::kHandshake;
  arm_timer(acceptor_.worker().now_ms() +
            static_cast<uint64_t>(acceptor_.listener().config.tls->handshake_timeout.count()));
  client_.start_reading();
  if (!setup_->held.empty()) client_handshake(std::move(setup_->held));
}

void L4Session::client_handshake(Buffer&& received) {
  TlsHandshake& handshake = *tls_->client.handshake;
  Buffer out;
  const TlsHandshake::Status status = handshake.advance(acceptor_.worker().pool(), std::move(received), out);
  client_.send(std::move(out));
  if (status == TlsHandshake::Status::kNeedMore) return;
  if (status == TlsHandshake::Status::kFailed) {
    log_tls_failure("it", handshake.error());
    return finish_after_last_words(SessionEnd::kTlsHandshake);
  }
  counters().tls_handshakes.add();
  if (handshake.resumed()) counters().tls_resumed.add();
  // Routes see what was agreed on, as they see what is offered where TLS passes through.
  ClientHello facts;
  const std::string name = handshake.server_name(), protocol = handshake.alpn();
  facts.server_name_size = static_cast<uint8_t>(std::min(name.size(), facts.server_name_bytes.size()));
  std::transform(name.begin(), name.begin() + facts.server_name_size, facts.server_name_bytes.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  if (!protocol.empty()) {
    if (char* to = facts.alpn.add(static_cast<uint8_t>(protocol.size()))) protocol.copy(to, protocol.size());
  }
  tls_->client.records = handshake.finish();
  tls_->client.handshake.reset();
  route(&facts);
}

void L4Session::begin_upstream_handshake() {
  const TlsClientContext& context = *balancer_->upstream().tls;
  if (!tls_) tls_ = std::make_unique<SessionTls>();
  tls_->upstream.handshake = std::make_unique<TlsHandshake>(context.get(), TlsHandshake::Side::kClient);
  context.prepare(tls_->upstream.handshake->ssl());
  Buffer header;
  queue_proxy_header(header);
  upstream_.send(std::move(header));
  upstream_.start_reading();
  upstream_handshake(Buffer());
}

void L4Session::upstream_handshake(Buffer&& received) {
  TlsHandshake& handshake = *tls_->upstream.handshake;
  Buffer out;
  const TlsHandshake::Status status = handshake.advance(acceptor_.worker().pool(), std::move(received), out);
  upstream_.send(std::move(out));
  if (status == TlsHandshake::Status::kNeedMore) return;
  if (status == TlsHandshake::Status::kFailed) {
    log_tls_failure(balancer_->upstream().endpoint_config(endpoint_index_).address.text(), handshake.error());
    return connect_failed(ConnectError::kTls);
  }
  tls_->upstream.records = handshake.finish();
  tls_->upstream.handshake.reset();
  balancer_->upstream().report_success(endpoint_index_);
  endpoint_counters().connected.add();
  forward();
}

// A few a second and worker: a scan must not fill a disk.
void L4Session::log_tls_failure(std::string_view with, std::string_view error) const {
  constexpr uint32_t kPerSecond = 10;
  static thread_local uint64_t second = 0;
  static thread_local uint32_t logged = 0;
  const uint64_t now_s = acceptor_.worker().now_ms() / 1000;
  if (std::exchange(second, now_s) != now_s) logged = 0;
  if (++logged > kPerSecond) return;
  std::fprintf(stderr, "sluice: listener \"%s\", client %s: TLS with %.*s failed: %s\n",
               acceptor_.listener().config.name.c_str(), text_of(client_source()).c_str(),
               static_cast<int>(with.size()), with.data(), std::string(error).c_str());
}

}  // namespace sluice
