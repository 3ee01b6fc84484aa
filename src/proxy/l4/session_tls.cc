// The handshakes of a session, of TLS and of ALTS.
#include <openssl/ssl.h>

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "alts_like/alts_like_handshake.h"
#include "alts_like/client_hello.h"
#include "net/worker.h"
#include "proxy/alts/alts_handshake.h"
#include "proxy/alts/alts_options.h"
#include "proxy/l4/acceptor.h"
#include "proxy/l4/session.h"
#include "proxy/tls/client_context.h"
#include "proxy/tls/key_signer.h"

namespace sluice {

namespace {

// How long a handshake may take where many others are under way.
constexpr uint64_t kCrowdedHandshakeMs = 1000;

// What may wait for a handshake's next step: more than the largest flight that is usual.
constexpr size_t kHandshakeBytes = size_t{32} * 1024;

}  // namespace

void L4Session::begin_client_handshake() {
  ListenerState& listener = acceptor_.listener();
  ConnectionLimit::Place place = listener.handshakes.take_place();
  if (!place) return refuse(Refusal::kHandshakes);
  tls_ = std::make_unique<SessionTls>();
  tls_->client.handshake =
      std::make_unique<Handshaking>([](void* self) { static_cast<L4Session*>(self)->client_handshake(); }, this);
  tls_->client.handshake->handshake = make_client_handshake(*tls_->client.handshake);
  tls_->client.handshake->place = std::move(place);
  tls_->client.handshake->started_ms = acceptor_.worker().now_ms();
  state_ = State::kHandshake;
  look_after_handshake();
  client_.start_reading();
  if (!setup_->held.empty()) go_on_with_handshake(client_, std::move(setup_->held));
}

std::unique_ptr<Handshake> L4Session::make_client_handshake(Handshaking& handshaking) {
  const ListenerState& listener = acceptor_.listener();
  const bssl::UniquePtr<SSL_CTX> context = listener.tls.take().context;
  if (const auto& alts = listener.config.alts) return make_alts_handshake(*alts, context.get(), client_, handshaking);
  auto made = std::make_unique<TlsHandshake>(context.get(), TlsHandshake::Side::kServer);
  KeySigner::wake(made->ssl(), handshaking.step);
  return made;
}

std::unique_ptr<Handshake> L4Session::make_alts_handshake(const config::Alts& alts, SSL_CTX* context,
                                                          const Socket& socket, Handshaking& handshaking) {
  const bool we_serve = is_client(socket);
  if (alts.handshaker.is_set()) {
    return std::make_unique<AltsHandshake>(acceptor_.handshakers().at(alts.handshaker),
                                           alts_options(alts, !we_serve, socket.fd()), handshaking.step);
  }
  auto made = std::make_unique<AltsLikeHandshake>(
      context, we_serve ? TlsHandshake::Side::kServer : TlsHandshake::Side::kClient,
      AltsLikeHandshake::Options{alts.target_identities, alts.max_frame_size.bytes});
  if (we_serve) KeySigner::wake(made->ssl(), handshaking.step);
  return made;
}

// A step takes as long as many forwarded pieces: it waits for its turn, and what comes meanwhile with it.
void L4Session::go_on_with_handshake(Socket& socket, Buffer&& received) {
  Handshaking& handshake = *(is_client(socket) ? tls_->client : tls_->upstream).handshake;
  handshake.received.append(std::move(received));
  acceptor_.worker().slow_work().push(handshake.step);
  if (handshake.received.size() >= kHandshakeBytes) socket.stop_reading();
}

void L4Session::look_after_handshake() {
  const ListenerState& listener = acceptor_.listener();
  const uint64_t now = acceptor_.worker().now_ms(), started = tls_->client.handshake->started_ms;
  const uint64_t due = started + static_cast<uint64_t>(listener.handshake_timeout().count());
  const bool crowded = listener.handshakes.crowded();
  if (now >= due || (crowded && now >= started + kCrowdedHandshakeMs)) {
    log_late_handshake(client_, now - started);
    return finish(SessionEnd::kTlsTimeout);
  }
  arm_timer(std::min(due, now + kCrowdedHandshakeMs));
}

// Whether the handshake of a side can only go on with more bytes of the peer.
bool L4Session::wants_bytes(const Socket& socket) const {
  const Handshaking& handshaking = *(is_client(socket) ? tls_->client : tls_->upstream).handshake;
  return !handshaking.step.queued() && handshaking.handshake->wants_bytes();
}

void L4Session::read_for_handshake(Socket& socket) {
  wants_bytes(socket) ? socket.start_reading() : socket.stop_reading();
}

// Runs the next step with what was received.
Handshake::Status L4Session::advance(Handshaking& handshaking, Socket& socket) {
  Buffer out;
  const Handshake::Status status =
      handshaking.handshake->advance(acceptor_.worker().pool(), std::move(handshaking.received), out);
  socket.send(std::move(out));
  return status;
}

void L4Session::client_handshake() {
  if (state_ != State::kHandshake) return;
  const Handshake::Status status = advance(*tls_->client.handshake, client_);
  if (status == Handshake::Status::kNeedMore) {
    return client_ended_ && wants_bytes(client_) ? finish(SessionEnd::kClientLeft) : read_for_handshake(client_);
  }
  Handshake& handshake = *tls_->client.handshake->handshake;
  if (status == Handshake::Status::kFailed) {
    log_failure(client_, handshake.error());
    return finish_after_last_words(SessionEnd::kTlsHandshake, client_);
  }
  setup_->agreed = std::make_unique<Agreement>(handshake.agreement());
  counters().tls_handshakes.add();
  if (setup_->agreed->resumed) counters().tls_resumed.add();
  // Routes see what was agreed on, as they see what is offered where TLS passes through.
  ClientHello facts;
  const std::string &name = setup_->agreed->server_name, &protocol = setup_->agreed->alpn;
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
  if (!tls_) tls_ = std::make_unique<SessionTls>();
  tls_->upstream.handshake =
      std::make_unique<Handshaking>([](void* self) { static_cast<L4Session*>(self)->upstream_handshake(); }, this);
  tls_->upstream.handshake->handshake = make_upstream_handshake(*tls_->upstream.handshake);
  Buffer header;
  queue_proxy_header(header);
  upstream_.send(std::move(header));
  upstream_.start_reading();
  go_on_with_handshake(upstream_, Buffer());
}

std::unique_ptr<Handshake> L4Session::make_upstream_handshake(Handshaking& handshaking) {
  const UpstreamState& upstream = balancer_->upstream();
  const CurrentContext::Taken current = upstream.tls.take();
  tls_->upstream_generation = current.generation;
  if (const auto& alts = upstream.config().alts) {
    return make_alts_handshake(*alts, current.context.get(), upstream_, handshaking);
  }
  auto made = std::make_unique<TlsHandshake>(current.context.get(), TlsHandshake::Side::kClient);
  expect_server(made->ssl(), *upstream.config().tls);
  if (const auto session = acceptor_.tls_sessions(upstream_index_).take(endpoint_index_, current.generation)) {
    SSL_set_session(made->ssl(), session.get());
  }
  handshaking.tls = made.get();
  return made;
}

void L4Session::upstream_handshake() {
  if (state_ != State::kConnecting || retry_) return;
  Handshaking& handshaking = *tls_->upstream.handshake;
  const Handshake::Status status = advance(handshaking, upstream_);
  if (status == Handshake::Status::kNeedMore) {
    return upstream_ended_ && wants_bytes(upstream_) ? connect_failed(ConnectError::kTls)
                                                     : read_for_handshake(upstream_);
  }
  if (status == Handshake::Status::kFailed) {
    log_failure(upstream_, handshaking.handshake->error());
    return connect_failed(ConnectError::kTls);
  }
  EndpointCounters& counters = endpoint_counters();
  counters.tls_handshakes.add();
  if (handshaking.tls) {
    if (handshaking.tls->resumed()) counters.tls_resumed.add();
    keep_session(handshaking.tls->session());
  }
  tls_->upstream.records = handshaking.handshake->finish();
  if (!handshaking.tls) tls_->upstream.handshake.reset();
  balancer_->upstream().report_success(endpoint_index_);
  counters.connected.add();
  forward();
}

void L4Session::keep_session(bssl::UniquePtr<SSL_SESSION> session) {
  acceptor_.tls_sessions(upstream_index_).put(endpoint_index_, tls_->upstream_generation, std::move(session));
}

// Those that come with the first bytes are enough; afterwards, and when there were none for a while, the handshake's
// memory is worth more.
void L4Session::take_session_tickets() {
  Buffer tickets = tls_->upstream.records->take_tickets();
  if (tickets.empty() || !tls_->upstream.handshake) return;
  for (auto& session : tls_->upstream.handshake->tls->sessions_of(std::move(tickets))) keep_session(std::move(session));
  tls_->upstream.handshake.reset();
}

void L4Session::log_late_handshake(const Socket& with, uint64_t after_ms) const {
  const Handshaking& late = *(is_client(with) ? tls_->client : tls_->upstream).handshake;
  log_failure(with, absl::StrCat("it was not done after ", config::print_duration(config::Duration(after_ms)),
                                 ", waiting for ", late.handshake->awaited()));
}

// A few a second and worker: a scan must not fill a disk.
void L4Session::log_failure(const Socket& with, std::string_view error) const {
  constexpr uint32_t kPerSecond = 10;
  static thread_local uint64_t second = 0;
  static thread_local uint32_t logged = 0;
  const uint64_t now_s = acceptor_.worker().now_ms() / 1000;
  if (std::exchange(second, now_s) != now_s) logged = 0;
  if (++logged > kPerSecond) return;
  const config::Listener& listener = acceptor_.listener().config;
  const bool is_alts = is_client(with) ? listener.alts.has_value() : balancer_->upstream().config().alts.has_value();
  const std::string whom =
      is_client(with) ? "it" : balancer_->upstream().endpoint_config(endpoint_index_).address.text();
  std::fprintf(stderr, "sluice: listener \"%s\", client %s: %s with %s failed: %s\n", listener.name.c_str(),
               text_of(client_source()).c_str(), is_alts ? "ALTS" : "TLS", whom.c_str(), std::string(error).c_str());
}

}  // namespace sluice
