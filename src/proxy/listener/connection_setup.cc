#include "proxy/listener/connection_setup.h"

#include <algorithm>
#include <memory>

#include "absl/strings/str_cat.h"
#include "net/worker.h"
#include "proxy/config/model/units.h"
#include "proxy/listener/client_acceptor.h"
#include "proxy/transport/handshakes.h"

namespace sluice {

namespace {

// How long a handshake may take while many others are in progress.
constexpr uint64_t kCrowdedHandshakeMs = 1000;

using config::milliseconds;

// The listener's `handshake_rate_limits` for one client. The acceptor outlives the connection's handshake.
class HandshakeRateGate final : public HelloGate {
 public:
  HandshakeRateGate(const ClientAcceptor& acceptor, const PeerAddress& client) : acceptor_(acceptor), client_(client) {}
  bool admits(std::string_view server_name) override { return acceptor_.admits_handshake(client_, server_name); }

 private:
  const ClientAcceptor& acceptor_;
  const PeerAddress client_;
};

}  // namespace

HeaderRule header_rule(const config::ProxyProtocol& config, int fd) {
  if (config.accept == config::ProxyHeaderIn::kOff) return HeaderRule::kNone;
  if (config.trusted.empty()) return HeaderRule::kExpected;
  const PeerAddress peer = PeerAddress::peer_of(fd);
  const bool trusted = std::any_of(config.trusted.begin(), config.trusted.end(), [&](const config::Cidr& range) {
    return peer.is_set() && range.contains(peer.data());
  });
  if (trusted) return HeaderRule::kExpected;
  return config.accept == config::ProxyHeaderIn::kRequired ? HeaderRule::kUntrusted : HeaderRule::kNone;
}

ConnectionSetup::ConnectionSetup(ClientAcceptor& acceptor, Transport& client, Owner& owner)
    : acceptor_(acceptor),
      client_(client),
      owner_(owner),
      timer_([](void* self) { static_cast<ConnectionSetup*>(self)->on_timer(); }, this) {
  client_.set_owner(*this);
}

PeerAddress ConnectionSetup::source() const {
  return proxy_header_ && proxy_header_->source.is_set() ? proxy_header_->source
                                                         : PeerAddress::peer_of(client_.socket().fd());
}

PeerAddress ConnectionSetup::destination() const {
  return proxy_header_ && proxy_header_->destination.is_set() ? proxy_header_->destination
                                                              : PeerAddress::own_of(client_.socket().fd());
}

void ConnectionSetup::arm_timer(uint64_t due_ms) { acceptor_.worker().timers().arm(timer_, due_ms); }

void ConnectionSetup::begin() {
  const config::ProxyProtocol& proxy = acceptor_.listener().config->proxy_protocol;
  switch (header_rule(proxy, client_.socket().fd())) {
    case HeaderRule::kNone:
      return after_proxy_header();
    case HeaderRule::kUntrusted:
      log("refused: its address is not in `proxy_protocol.trusted`");
      return fail(SessionEnd::kProxyHeader);
    case HeaderRule::kExpected:
      break;
  }
  arm_timer(acceptor_.worker().now_ms() + milliseconds(proxy.timeout));
  client_.start_reading();
}

// A client that sends tiny pieces must pin only their bytes, not a chunk for each piece.
void ConnectionSetup::wait_for_more() { held_.compact(acceptor_.worker().pool()); }

void ConnectionSetup::read_proxy_header() {
  if (held_.size() < wanted_) return wait_for_more();
  ProxyHeader header;
  const ProxyResult result = parse_proxy_header(held_, header);
  switch (result.status) {
    case ProxyStatus::kNeedMore:
      wanted_ = result.bytes;
      return wait_for_more();
    case ProxyStatus::kComplete:
      held_.trim_front(result.bytes);
      proxy_header_ = make_in_chunk<ProxyHeader>(acceptor_.worker().pool(), header);
      return after_proxy_header();
    case ProxyStatus::kNotProxy:
      if (acceptor_.listener().config->proxy_protocol.accept == config::ProxyHeaderIn::kOptional) {
        return after_proxy_header();
      }
      [[fallthrough]];
    case ProxyStatus::kMalformed:
      log(result.status == ProxyStatus::kNotProxy ? "refused: its first bytes are not a PROXY header"
                                                  : "refused: its PROXY header is malformed");
      return fail(SessionEnd::kProxyHeader);
  }
}

void ConnectionSetup::after_proxy_header() {
  timer_.cancel();
  const config::Listener& config = *acceptor_.listener().config;
  if (config.proxy_protocol.accept != config::ProxyHeaderIn::kOff && !config.connection_rate_limits.empty() &&
      !acceptor_.admits_rate(source())) {
    log("refused: its address has made as many connections lately as `connection_rate_limits` admit");
    return refuse(Refusal::kRate);
  }
  if (SourceLimit& sources = acceptor_.listener().limits->sources; sources.enabled()) {
    Source source;
    const PeerAddress peer = this->source();
    if (peer.is_set() && Source::from(peer.data(), source)) {
      place_ = sources.take_place(source);
      if (!place_) {
        log("refused: its address has as many connections as `max_connections_per_source` allows");
        return refuse(Refusal::kSource);
      }
    }
  }
  if (acceptor_.listener().terminates()) return begin_handshake();
  state_ = State::kDone;
  owner_.on_client_ready(std::move(held_));
}

void ConnectionSetup::begin_handshake() {
  ListenerState& listener = acceptor_.listener();
  ConnectionLimit::Place place = listener.limits->handshakes.take_place();
  if (!place) {
    log("refused: as many handshakes are in progress as `max_handshakes` allows");
    return refuse(Refusal::kHandshakes);
  }
  state_ = State::kHandshake;
  Handshaking& handshaking = client_.prepare_handshake();
  make_client_handshake(
      *listener.config, listener.tls.take().context, acceptor_.handshakers(), client_.socket(), handshaking,
      acceptor_.limits_handshakes() ? std::make_unique<HandshakeRateGate>(acceptor_, source()) : nullptr);
  handshaking.place = std::move(place);
  handshake_ms_ = handshaking.started_ms;
  check_handshake();
  client_.await_handshake(std::move(held_));
}

void ConnectionSetup::check_handshake() {
  const ListenerState& listener = acceptor_.listener();
  const uint64_t now = acceptor_.worker().now_ms();
  const uint64_t due = handshake_ms_ + milliseconds(listener.handshake_timeout());
  const bool crowded = listener.limits->handshakes.crowded();
  if (now >= due || (crowded && now >= handshake_ms_ + kCrowdedHandshakeMs)) {
    log_failure(absl::StrCat("the handshake was not complete after ",
                             config::print_duration(config::Duration(now - handshake_ms_)), ", waiting for ",
                             client_.awaited()));
    return fail(SessionEnd::kTlsTimeout);
  }
  arm_timer(std::min(due, now + kCrowdedHandshakeMs));
}

void ConnectionSetup::on_timer() {
  if (state_ == State::kHandshake) return check_handshake();
  log("its PROXY header was not complete in time");
  fail(SessionEnd::kProxyTimeout);
}

void ConnectionSetup::on_secured(Transport&, const Agreement& agreement) {
  timer_.cancel();
  ListenerCounters& counters = acceptor_.counters();
  counters.tls_handshakes.add();
  if (agreement.resumed) counters.tls_resumed.add();
  counters.tls_handshake_time.add(acceptor_.worker().now_ms() - handshake_ms_);
  agreed_ = std::make_unique<Agreement>(agreement);
  state_ = State::kDone;
  owner_.on_client_ready(Buffer());
}

void ConnectionSetup::on_insecure(Transport&, std::string_view error) {
  if (error.empty()) return fail(SessionEnd::kClientLeft);
  if (error == TlsHandshake::kRejected) {
    log("refused: its address or server name has begun as many handshakes lately as `handshake_rate_limits` admit");
    return refuse(Refusal::kRate);
  }
  log_failure(error);
  if (error == TlsHandshake::kPlainHttp) respond_to_plain_http();
  fail(SessionEnd::kTlsHandshake);
}

void ConnectionSetup::on_data(Transport&, Buffer&& data) {
  if (state_ != State::kProxyHeader) return;
  held_.append(std::move(data));
  read_proxy_header();
}

void ConnectionSetup::on_end(Transport&, bool) {
  if (state_ != State::kDone) fail(SessionEnd::kClientLeft);
}

void ConnectionSetup::on_error(Transport&, int) {
  if (state_ != State::kDone) fail(SessionEnd::kClientError);
}

void ConnectionSetup::on_closed(Transport&) { owner_.on_client_closed(); }

void ConnectionSetup::log_failure(std::string_view error) const {
  const config::Listener& listener = *acceptor_.listener().config;
  sluice::log_failure(acceptor_.worker(), listener, text_of(source()), listener.alts.has_value(), "it", error);
}

void ConnectionSetup::log(std::string_view what) const {
  log_client(acceptor_.worker(), *acceptor_.listener().config, text_of(source()), what);
}

// BoringSSL sends no alert in this case, so this response is all that the client receives.
void ConnectionSetup::respond_to_plain_http() {
  constexpr std::string_view kResponse =
      "HTTP/1.1 400 Bad Request\r\ncontent-type: text/plain; charset=utf-8\r\ncontent-length: 57\r\n"
      "connection: close\r\n\r\nplain HTTP request sent to a TLS port; use https instead\n";
  static_assert(kResponse.size() - kResponse.find("\r\n\r\n") - 4 == 57);
  Buffer response;
  response.append_copy_beyond_budget(acceptor_.worker().pool(), kResponse);
  client_.send(std::move(response));
}

void ConnectionSetup::fail(SessionEnd end) {
  state_ = State::kDone;
  timer_.cancel();
  owner_.on_client_failed(end);
}

void ConnectionSetup::refuse(Refusal reason) {
  state_ = State::kDone;
  timer_.cancel();
  owner_.on_client_refused(reason);
}

}  // namespace sluice
