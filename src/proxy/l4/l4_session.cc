#include "proxy/l4/l4_session.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "alts_like/client_hello.h"
#include "net/worker.h"
#include "proxy/config/model/units.h"
#include "proxy/l4/connection_log.h"
#include "proxy/listener/client_acceptor.h"
#include "proxy/router/request_key.h"
#include "proxy/transport/handshakes.h"
#include "proxy/transport/proxy_protocol.h"
#include "proxy/transport/upstream_socket.h"
#include "sluice/copied.h"
#include "sluice/internal/check.h"

namespace sluice {

namespace {

// After this long without activity, a session is checked once (check_quiet).
constexpr uint64_t kQuietMs = 1000;

// How often a session with a stuck reader checks whether it should be shed while memory is short.
constexpr uint64_t kShedLoadRetryMs = 100;

using config::milliseconds;

ProxyTls proxy_tls_of(const Agreement& agreed) {
  return {.version = agreed.version,
          .cipher = agreed.cipher,
          .authority = agreed.server_name,
          .alpn = agreed.alpn,
          .common_name = agreed.common_name,
          .client_certificate = agreed.certified,
          .in_this_connection = !agreed.resumed};
}

// Routes see the negotiated values as they would see the offered ones if TLS passed through.
ClientHello hello_of(const Agreement& agreed) {
  ClientHello hello;
  const std::string &name = agreed.server_name, &protocol = agreed.alpn;
  hello.server_name_size = static_cast<uint8_t>(std::min(name.size(), hello.server_name_bytes.size()));
  std::transform(name.begin(), name.begin() + hello.server_name_size, hello.server_name_bytes.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  if (!protocol.empty()) {
    if (char* to = hello.alpn.add(static_cast<uint8_t>(protocol.size()))) protocol.copy(to, protocol.size());
  }
  return hello;
}

}  // namespace

void L4Session::start(ClientAcceptor& acceptor, const L4Extras& extras, int fd, int family) {
  L4Session* const session = make(acceptor, extras);
  session->client_.adopt(fd, family);
  if (ConnectionLog* const line = session->log()) line->note_client(PeerAddress::peer_of(fd));
  session->setup_ = make_in_chunk<Setup>(acceptor.worker().pool(), *session);
  session->setup_->client.begin();
}

L4Session::L4Session(ClientAcceptor& acceptor, Kind kind)
    : acceptor_(acceptor),
      client_(acceptor.worker(), *this),
      started_ms_(acceptor.worker().now_ms()),
      upstream_(acceptor.worker(), *this),
      timer_([](void* self) { static_cast<L4Session*>(self)->on_timer(); }, this),
      last_active_ms_(started_ms_),
      kind_(kind) {
  acceptor_.joined(*this);
}

L4Session::~L4Session() { acceptor_.left(*this); }

ListenerCounters& L4Session::counters() { return acceptor_.counters(); }
EndpointCounters& L4Session::endpoint_counters() {
  return acceptor_.upstream(upstream_index_).counters_of(endpoint_index_);
}
UpstreamState& L4Session::upstream_state() const { return *acceptor_.upstream(upstream_index_).state; }

// The client's address: from the PROXY header while setup holds it, otherwise from the kernel.
PeerAddress L4Session::client_source() const {
  return setup_ ? setup_->client.source() : PeerAddress::peer_of(client_.socket().fd());
}

void L4Session::arm_timer(uint64_t due_ms) { acceptor_.worker().timers().arm(timer_, due_ms); }

// ---- The client ----

void L4Session::client_ready(Buffer&& first) {
  SLUICE_DCHECK(state_ == State::kSetup);
  client_.set_owner(*this);
  setup_->held = std::move(first);
  source_place_ = setup_->client.take_source_place();
  note_client();
  if (const Agreement* const agreed = setup_->client.agreed()) {
    const ClientHello hello = hello_of(*agreed);
    route(&hello);
    return client_.release_arrived();
  }
  if (!acceptor_.listener().router.needs_hello()) return route(nullptr);
  state_ = State::kHello;
  arm_timer(acceptor_.worker().now_ms() + milliseconds(acceptor_.tcp().inspect_timeout));
  client_.start_reading();
  if (!setup_->held.empty()) read_hello();
}

void L4Session::client_refused(Refusal reason) {
  SLUICE_DCHECK(state_ == State::kSetup);
  client_.set_owner(*this);
  counters().refused[static_cast<size_t>(reason)].add();
  note_client();
  log_end(refusal_name(reason));
  state_ = State::kClosing;
  client_.abort();
}

void L4Session::client_failed(SessionEnd end) {
  client_.set_owner(*this);
  note_client();
  end == SessionEnd::kTlsHandshake ? begin_draining(client_, end, Drain::kAlert) : finish(end);
}

// A client that sends tiny pieces must pin only their bytes, not a chunk for each piece.
void L4Session::wait_for_more() { setup_->held.compact(acceptor_.worker().pool()); }

void L4Session::read_hello() {
  if (setup_->held.size() < setup_->wanted) return wait_for_more();
  ClientHello hello;
  const HelloResult result = parse_client_hello(setup_->held, hello);
  switch (result.status) {
    case HelloStatus::kNeedMore:
      setup_->wanted = result.bytes;
      return wait_for_more();
    case HelloStatus::kComplete:
      return route(&hello);
    case HelloStatus::kNotTls:
      return route(nullptr);
    case HelloStatus::kMalformed:
    case HelloStatus::kTooLarge:
      return finish(SessionEnd::kHello);
  }
}

void L4Session::route(const ClientHello* hello) {
  const std::optional<TcpTarget> target = acceptor_.listener().router.route({hello, setup_->client.agreed()});
  note_route(hello, target);
  if (!target) {
    log_client(acceptor_.worker(), *acceptor_.listener().config, text_of(client_source()),
               "closed: no route matches it");
    return finish(SessionEnd::kNoRoute);
  }
  upstream_index_ = target->upstream;
  make_pacers(target->route);
  connect_next();
}

// ---- The endpoint ----

void L4Session::connect_next() {
  SLUICE_DCHECK(state_ == State::kSetup || state_ == State::kHello || state_ == State::kRetrying);
  state_ = State::kConnecting;
  Balancer& balancer = acceptor_.upstream(upstream_index_).balancer;
  while (setup_->attempts < upstream_state().config().connect_attempts) {
    Choice choice{.tried = setup_->tried, .now_ms = acceptor_.worker().now_ms()};
    if (balancer.needs_hash()) choice.hash = hash_of_client(ClientIp(client_source()));
    const std::optional<uint32_t> endpoint = balancer.pick(choice);
    if (!endpoint) break;
    endpoint_index_ = *endpoint;
    setup_->tried.add(*endpoint);
    ++setup_->attempts;
    if (ConnectionLog* const line = log()) line->note_attempt();
    if (open_upstream()) return;
  }
  const bool unresolved = balancer.view().present().empty();
  log_client(
      acceptor_.worker(), *acceptor_.listener().config, text_of(client_source()),
      absl::StrCat("closed: upstream \"", upstream_state().config().name,
                   unresolved ? "\" has no endpoint because its names do not resolve" : "\" has no endpoint left",
                   " after ", setup_->attempts, " attempt(s)"));
  finish(unresolved ? SessionEnd::kNotResolved : SessionEnd::kNoEndpoint);
}

bool L4Session::open_upstream() {
  endpoint_counters().begun.add();
  const config::Address& address = upstream_state().address(endpoint_index_);
  const int fd = open_upstream_socket(upstream_state().config(), address.family());
  if (fd < 0) {
    endpoint_counters().connect_errors[static_cast<size_t>(connect_error_of(errno))].add();
    return false;
  }
  use_endpoint();
  setup_->attempted_ms = acceptor_.worker().now_ms();
  arm_timer(setup_->attempted_ms + milliseconds(upstream_state().config().connect_timeout));
  upstream_.connect(fd, address.data(), address.length());
  return true;
}

void L4Session::use_endpoint() {
  upstream_state().endpoint(endpoint_index_).active.fetch_add(1, std::memory_order_relaxed);
  acceptor_.upstream(upstream_index_).balancer.view().hold(endpoint_index_);
  endpoint_counters().open.add();
  // Whether it is a tunnel; one that comes from another process is of no Kind of its own.
  if (!acceptor_.listener().config->tcp) endpoint_counters().requests_active.add();
  endpoint_counted_ = true;
}

void L4Session::leave_endpoint() {
  if (!endpoint_counted_) return;
  endpoint_counted_ = false;
  endpoint_counters().open.subtract();
  if (!acceptor_.listener().config->tcp) endpoint_counters().requests_active.subtract();
  upstream_state().endpoint(endpoint_index_).active.fetch_sub(1, std::memory_order_relaxed);
  acceptor_.upstream(upstream_index_).balancer.view().let_go(endpoint_index_);
}

void L4Session::on_connected(Transport&, int error) {
  if (state_ != State::kConnecting) return;
  if (error != 0) return connect_failed(connect_error_of(error));
  upstream_state().config().tls || upstream_state().config().alts ? begin_upstream_handshake() : connected();
}

void L4Session::begin_upstream_handshake() {
  tls_generation_ = make_endpoint_handshake(upstream_state(), endpoint_index_, acceptor_.handshakers(),
                                            acceptor_.upstream(upstream_index_).tls_sessions, upstream_.socket(),
                                            upstream_.prepare_handshake());
  Buffer header;
  queue_proxy_header(header);
  endpoint_counters().bytes_out.add(header.size());
  upstream_.send(std::move(header));
  upstream_.begin_handshake();
}

void L4Session::on_secured(Transport&, const Agreement& agreement) {
  endpoint_counters().tls_handshakes.add();
  if (agreement.resumed) endpoint_counters().tls_resumed.add();
  connected();
}

void L4Session::on_insecure(Transport&, std::string_view error) {
  connect_failed(ConnectError::kTls, describe_failure(upstream_state().config(), error));
}

void L4Session::on_session(Transport&, bssl::UniquePtr<SSL_SESSION> session) {
  acceptor_.upstream(upstream_index_).tls_sessions.put(endpoint_index_, tls_generation_, std::move(session));
}

void L4Session::connected() {
  upstream_state().report_success(endpoint_index_, acceptor_.worker().now_ms());
  upstream_state().report_connection(endpoint_index_);
  endpoint_counters().connected.add();
  acceptor_.upstream(upstream_index_).latencies->connect.add(acceptor_.worker().now_ms() - setup_->attempted_ms);
  if (ConnectionLog* const line = log()) line->note_connected();
  forward();
}

// The transport closes first. The next attempt starts when it has closed (on_closed).
void L4Session::connect_failed(ConnectError error, std::string_view detail) {
  SLUICE_DCHECK(state_ == State::kConnecting);
  endpoint_counters().connect_errors[static_cast<size_t>(error)].add();
  if (error != ConnectError::kLocal) {
    upstream_state().report_failure(endpoint_index_, acceptor_.worker().now_ms(), error, detail);
  }
  leave_endpoint();
  state_ = State::kRetrying;
  // The queued alert shows the endpoint what was wrong with its handshake.
  if (error != ConnectError::kTls || upstream_.queued() == 0) return upstream_.close();
  upstream_.shutdown_write();
  arm_timer(acceptor_.worker().now_ms() + kAlertMs);
}

void L4Session::queue_proxy_header(Buffer& to) {
  std::array<std::byte, kMaxWrittenProxyBytes> header;
  size_t bytes = 0;
  const ConnectionSetup& client = setup_->client;
  switch (upstream_state().config().send_proxy_protocol) {
    case config::ProxyHeaderOut::kOff:
      return;
    case config::ProxyHeaderOut::kV1:
      bytes = write_proxy_v1(header, client.source(), client.destination());
      break;
    case config::ProxyHeaderOut::kV2: {
      const std::optional<ProxyTls> tls =
          client.agreed() ? std::optional(proxy_tls_of(*client.agreed())) : std::nullopt;
      bytes = write_proxy_v2(header, client.source(), client.destination(), tls ? &*tls : nullptr);
      break;
    }
  }
  // Beyond the budget if necessary: it is only a few bytes, and it cannot wait for the posted chunks to leave room.
  to.append_copy_beyond_budget(acceptor_.worker().pool(), std::span(header).first(bytes));
}

// ---- The bytes ----

void L4Session::forward() {
  SLUICE_DCHECK(state_ == State::kConnecting && endpoint_counted_);
  Buffer header, held = std::move(setup_->held);
  if (!upstream_.secured()) queue_proxy_header(header);  // Otherwise it was sent before the handshake.
  const ClientEnd client_end = setup_->client_end;
  setup_.reset();
  state_ = State::kForwarding;
  note_activity();
  on_timer();
  endpoint_counters().bytes_out.add(header.size());
  if (!header.empty()) upstream_.send(std::move(header));
  client_.start_reading();
  upstream_.start_reading();
  pass_on(client_, std::move(held));
  // The only thing left there is perhaps a malformed record that has not been reported yet.
  if (state_ == State::kForwarding) client_.release_arrived();
  if (state_ == State::kForwarding && client_end != ClientEnd::kNone) {
    on_end(client_, client_end == ClientEnd::kTruncated);
  }
  // Data that arrived after the endpoint's handshake.
  if (state_ == State::kForwarding) upstream_.release_arrived();
}

void L4Session::on_data(Transport& from, Buffer&& data) {
  switch (state_) {
    case State::kHello:
      setup_->held.append(std::move(data));
      return read_hello();
    case State::kConnecting:
    case State::kRetrying:
      // While there is little data, reading on costs less than stopping and starting.
      setup_->held.append(std::move(data));
      if (setup_->held.size() >= high_mark()) client_.stop_reading();
      return wait_for_more();
    case State::kForwarding:
      note_activity();
      return pass_on(from, std::move(data));
    case State::kMoving:
      return pass_on(from, std::move(data));
    case State::kDraining:
      if (&from == &failed_side() && drain_ == Drain::kRest) pass_on(from, std::move(data));
      return;
    case State::kSetup:
    case State::kClosing:
      return;
  }
}

void L4Session::on_part(Transport&) {
  if (state_ == State::kForwarding) note_activity();
}

void L4Session::pass_on(Transport& from, Buffer&& data) {
  const size_t bytes = data.size();
  if (bytes == 0) return;
  if (is_client(from)) {
    counters().bytes_in.add(bytes);
    endpoint_counters().bytes_out.add(bytes);
  } else {
    endpoint_counters().bytes_in.add(bytes);
    counters().bytes_out.add(bytes);
  }
  Transport& to = other(from);
  to.send(std::move(data));
  bool waits = false;
  if (kind_ == Kind::kWithExtras) {
    waits = take_note(from, bytes);
  } else if (is_tunnel()) {
    note_passed(is_client(from), bytes, to.queued() + from.queued());
  }
  if (waits || to.queued() >= high_mark()) from.stop_reading();
}

// How much output may be queued for one side. No session may take more than a share of what is left of the worker's
// chunk budget, so that many slow readers together leave something for the others.
size_t L4Session::high_mark() const { return acceptor_.worker().share(acceptor_.tcp().buffer_high.bytes); }

size_t L4Session::receive_credit(Transport& from) {
  const size_t queued = other(from).queued(), high = high_mark();
  return high > queued ? high - queued : 0;
}

void L4Session::note_activity() {
  last_active_ms_ = acceptor_.worker().now_ms();
  if (!quiet_) return;
  quiet_ = false;
  on_timer();  // The timer may be due only after idle_timeout.
}

void L4Session::on_sent(Transport& to) {
  if (state_ == State::kDraining) {
    last_active_ms_ = acceptor_.worker().now_ms();
    return continue_draining();
  }
  if (state_ == State::kRetrying && upstream_.write_shut()) return upstream_.close();
  if (state_ != State::kForwarding) return;
  note_activity();
  if (to.queued() <= std::min<size_t>(acceptor_.tcp().buffer_low.bytes, high_mark() / 2)) read_on(other(to));
  maybe_finished();
}

void L4Session::on_end(Transport& from, bool truncated) {
  switch (state_) {
    case State::kConnecting:
    case State::kRetrying:
      // The client may have sent all its data and its end of stream. An end from the endpoint means that it refused us
      // during the handshake.
      if (!is_client(from)) return upstream_.close();
      setup_->client_end = truncated ? ClientEnd::kTruncated : ClientEnd::kOrderly;
      return;
    case State::kForwarding:
    case State::kMoving:
      return side_ended(from, truncated);
    case State::kDraining:
      if (&from == &failed_side()) continue_draining();
      return;
    default:
      return finish(SessionEnd::kClientLeft);
  }
}

// Passes an end of stream on to the other side. Data that may be truncated must not look complete there (RFC 8446
// section 6.1, RFC 5246 section 7.2.1): with TLS the close_notify is left out, without TLS the connection is reset.
void L4Session::side_ended(Transport& from, bool truncated) {
  if (truncated) {
    if (!other(from).secured() || is_tunnel()) stay();
    (is_client(from) ? counters().tls_truncated : endpoint_counters().tls_truncated).add();
    if (!other(from).secured() || is_tunnel()) {
      return begin_draining(from, is_client(from) ? SessionEnd::kClientError : SessionEnd::kUpstreamError,
                            Drain::kQueue);
    }
  }
  other(from).shutdown_write(/*cut=*/truncated);
  maybe_finished();
}

// Once both ends of stream have been passed on, nothing can follow.
void L4Session::maybe_finished() {
  if (client_.write_shut() && upstream_.write_shut()) finish(SessionEnd::kFinished);
}

void L4Session::on_error(Transport& transport, int error) {
  if (state_ == State::kClosing) return;
  if (state_ == State::kDraining) return failed_while_draining(transport);
  if (!is_client(transport)) {
    if (state_ == State::kRetrying) return upstream_.close();
    if (state_ == State::kConnecting) return connect_failed(connect_error_of(error));
  }
  stay();
  const SessionEnd end = is_client(transport) ? SessionEnd::kClientError : SessionEnd::kUpstreamError;
  state_ == State::kForwarding ? begin_draining(transport, end, Drain::kRest) : finish(end);
}

void L4Session::on_record_error(Transport& from, std::string_view error) {
  // The data before the bad record belongs to the endpoint; forward() reaches the record again.
  if (state_ == State::kConnecting || state_ == State::kRetrying) return from.stop_reading();
  if (state_ == State::kDraining && drain_ == Drain::kRest) return failed_while_draining(from);
  stay();
  if (state_ != State::kForwarding) return;
  log_failure(from, error);
  begin_draining(from, is_client(from) ? SessionEnd::kTlsError : SessionEnd::kUpstreamError, Drain::kAlert);
}

void L4Session::log_failure(const Transport& with, std::string_view error) const {
  const config::Listener& listener = *acceptor_.listener().config;
  const UpstreamState& upstream = upstream_state();
  const bool is_alts = is_client(with) ? listener.alts.has_value() : upstream.config().alts.has_value();
  const std::string whom = is_client(with) ? "it" : upstream.describe(endpoint_index_);
  sluice::log_failure(acceptor_.worker(), listener, text_of(client_source()), is_alts, whom, error);
}

// ---- Time ----

void L4Session::on_timer() {
  const uint64_t now = acceptor_.worker().now_ms();
  switch (state_) {
    case State::kHello:
      return finish(SessionEnd::kHelloTimeout);
    case State::kDraining:
      return on_drain_timer();
    case State::kRetrying:
      return upstream_.close();
    case State::kConnecting:
      if (!upstream_.in_handshake()) return connect_failed(ConnectError::kTimeout);
      return connect_failed(ConnectError::kTimeout, describe_slow_handshake(upstream_state().config(), upstream_));
    case State::kMoving:
      return stay();
    case State::kSetup:
    case State::kClosing:
      return;
    case State::kForwarding:
      break;
  }
  // Activity only records the time. The timer compares it when it fires, and is armed again if there was some.
  const uint64_t idle_ms = idle_timeout_ms();
  const uint64_t max_ms = milliseconds(acceptor_.tcp().max_duration);
  const uint64_t quiet_ms = idle_ms > 0 ? std::min(kQuietMs, idle_ms / 2) : kQuietMs;
  if (now >= last_active_ms_ + quiet_ms) check_quiet();
  if (state_ != State::kForwarding) return;
  uint64_t due = quiet_ ? UINT64_MAX : last_active_ms_ + quiet_ms;
  if (idle_ms > 0) {
    if (now >= last_active_ms_ + idle_ms) {
      if (!waits_for_turn()) return finish(SessionEnd::kIdleTimeout);
      last_active_ms_ = now;
    }
    due = std::min(due, last_active_ms_ + idle_ms);
  }
  if (const uint64_t stuck_ms = milliseconds(acceptor_.tcp().stuck_timeout); stuck_ms > 0 && has_queued()) {
    if (now >= last_active_ms_ + stuck_ms && acceptor_.worker().should_shed_load()) {
      check_quiet();
      if (state_ != State::kForwarding) return;
      if (now >= last_active_ms_ + stuck_ms) return finish(SessionEnd::kStuck);
    }
    const uint64_t retry_ms = acceptor_.worker().short_of_memory() ? kShedLoadRetryMs : kQuietMs;
    due = std::min(due, std::max(last_active_ms_ + stuck_ms, now + retry_ms));
  }
  if (is_tunnel() && client_.queued() > 0) {
    if (client_is_stuck(now)) return finish(SessionEnd::kStuck);
    due = std::min(due, now + kQuietMs);
  }
  if (max_ms > 0) {
    if (now >= started_ms_ + max_ms) return finish(SessionEnd::kMaxDuration);
    due = std::min(due, started_ms_ + max_ms);
  }
  if (due != UINT64_MAX) arm_timer(due);
}

// Requests, and so their tunnels, do not end earlier while memory is short.
uint64_t L4Session::idle_timeout_ms() const {
  const uint64_t idle_ms = milliseconds(acceptor_.tcp().idle_timeout);
  return is_tunnel() ? idle_ms : acceptor_.overload().reduced_ms(idle_ms);
}

// Finds what completions do not report: a reset that arrived together with data, and the progress of a send to a slow
// reader.
void L4Session::check_quiet() {
  quiet_ = true;
  const bool client_lives = client_.park(), upstream_lives = upstream_.park();
  if (!client_lives) return begin_draining(client_, SessionEnd::kClientError, Drain::kRest);
  if (!upstream_lives) return begin_draining(upstream_, SessionEnd::kUpstreamError, Drain::kRest);
  if (!has_queued()) return;
  const auto acknowledged = static_cast<uint32_t>(client_.socket().acknowledged() + upstream_.socket().acknowledged());
  if (std::exchange(acknowledged_, acknowledged) != acknowledged) note_activity();
}

// ---- Memory ----

// The timer is due only after the idle timeout that applied when it was armed.
bool L4Session::review_memory() {
  const uint64_t idle_ms = milliseconds(acceptor_.tcp().idle_timeout);
  if (state_ != State::kForwarding || idle_ms == 0 || is_tunnel() || !acceptor_.overload().reduces()) return false;
  const uint64_t quiet_for_ms = acceptor_.worker().now_ms() - last_active_ms_;
  if (quiet_for_ms < acceptor_.overload().reduced_ms(idle_ms) || quiet_for_ms >= idle_ms) return false;
  acceptor_.overload().count(OverloadAction::kReduceTimeouts);
  on_timer();
  return false;
}

bool L4Session::close_for_memory() {
  if (state_ != State::kForwarding && state_ != State::kDraining) return false;
  finish(SessionEnd::kOverload);
  return true;
}

}  // namespace sluice
