#include "proxy/l4/session.h"

#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <optional>
#include <utility>

#include "alts_like/client_hello.h"
#include "buffer/copied.h"
#include "net/worker.h"
#include "pool/check.h"
#include "proxy/l4/acceptor.h"
#include "proxy/l4/proxy_protocol.h"
#include "proxy/upstream/upstream_socket.h"

namespace sluice {

namespace {

// The share of the chunk budget's rest that one session may queue, and what it may at least.
constexpr size_t kHighMarkShare = 32;
constexpr size_t kHighMarkMin = 16 * 1024;

// A session is looked after once when nothing has happened for so long.
constexpr uint64_t kQuietMs = 1000;

// What a bulk receive may bring in the middle of a handshake, where there is a bound to what can wait.
constexpr size_t kHandshakeCreditBytes = size_t{64} * 1024;

// How long the last words may take to go out.
constexpr uint64_t kLastWordsMs = 1000;

// How often a session whose reader is stuck asks whether it should give way while memory is short.
constexpr uint64_t kGiveWayRetryMs = 100;

uint64_t milliseconds(config::Duration duration) { return static_cast<uint64_t>(duration.count()); }

ProxyTls said_of(const Agreement& agreed) {
  return {.version = agreed.version,
          .cipher = agreed.cipher,
          .authority = agreed.server_name,
          .alpn = agreed.alpn,
          .common_name = agreed.common_name,
          .client_certificate = agreed.certified,
          .in_this_connection = !agreed.resumed};
}

}  // namespace

void L4Session::start(L4Acceptor& acceptor, int fd) { (new L4Session(acceptor, fd))->begin(); }

L4Session::L4Session(L4Acceptor& acceptor, int fd)
    : acceptor_(acceptor),
      client_(acceptor.worker(), *this),
      upstream_(acceptor.worker(), *this),
      timer_([](void* self) { static_cast<L4Session*>(self)->on_timer(); }, this),
      setup_(std::make_unique<Setup>()),
      started_ms_(acceptor.worker().now_ms()),
      last_active_ms_(started_ms_) {
  client_.adopt(fd, acceptor.listener().config.address.family());
  acceptor_.joined(*this);
}

L4Session::~L4Session() {
  if (source_counted_) acceptor_.listener().sources.leave(source_);
  acceptor_.left(*this);
}

ListenerCounters& L4Session::counters() { return acceptor_.counters(); }
EndpointCounters& L4Session::endpoint_counters() {
  return acceptor_.endpoint_counters(upstream_index_, endpoint_index_);
}

void L4Session::arm_timer(uint64_t due_ms) { acceptor_.worker().timers().arm(timer_, due_ms); }

void L4Session::begin() {
  const config::ProxyProtocol& proxy = acceptor_.listener().config.proxy_protocol;
  bool expect_header = proxy.accept != config::ProxyHeaderIn::kOff;
  if (expect_header && !proxy.trusted.empty()) {
    const PeerAddress peer = client_source();
    const bool trusted = std::any_of(proxy.trusted.begin(), proxy.trusted.end(), [&](const config::Cidr& range) {
      return peer.is_set() && range.contains(peer.data());
    });
    if (!trusted && proxy.accept == config::ProxyHeaderIn::kRequired) return finish(SessionEnd::kProxyHeader);
    expect_header = trusted;
  }
  if (!expect_header) return after_proxy_header();
  state_ = State::kProxyHeader;
  arm_timer(started_ms_ + milliseconds(proxy.timeout));
  client_.start_reading();
}

// A client that drips must pin bytes, not a chunk for each piece.
void L4Session::wait_for_more() { setup_->held.settle(acceptor_.worker().pool()); }

void L4Session::read_proxy_header() {
  if (setup_->held.size() < setup_->wanted) return wait_for_more();
  ProxyHeader header;
  const ProxyResult result = parse_proxy_header(setup_->held, header);
  switch (result.status) {
    case ProxyStatus::kNeedMore:
      setup_->wanted = result.bytes;
      return wait_for_more();
    case ProxyStatus::kComplete:
      setup_->held.trim_front(result.bytes);
      setup_->source = header.source;
      setup_->destination = header.destination;
      return after_proxy_header();
    case ProxyStatus::kNotProxy:
      if (acceptor_.listener().config.proxy_protocol.accept == config::ProxyHeaderIn::kOptional) {
        return after_proxy_header();
      }
      [[fallthrough]];
    case ProxyStatus::kMalformed:
      return finish(SessionEnd::kProxyHeader);
  }
}

// Limits per source apply to the address that the PROXY header names, which is why they come only now.
bool L4Session::admit_source() {
  SourceLimit& sources = acceptor_.listener().sources;
  if (!sources.enabled()) return true;
  const PeerAddress peer = client_source();
  if (!peer.is_set() || !Source::from(peer.data(), source_)) return true;
  source_counted_ = sources.enter(source_);
  return source_counted_;
}

void L4Session::refuse(Refusal reason) {
  counters().refused[static_cast<size_t>(reason)].add();
  state_ = State::kClosing;
  client_.abort();
}

void L4Session::after_proxy_header() {
  if (!admit_source()) return refuse(Refusal::kSource);
  if (acceptor_.listener().terminates()) return begin_client_handshake();
  const TcpRouter& router = acceptor_.listener().router;
  if (!router.needs_hello()) return route(nullptr);
  state_ = State::kHello;
  setup_->wanted = 0;
  arm_timer(acceptor_.worker().now_ms() + milliseconds(acceptor_.tcp().inspect_timeout));
  client_.start_reading();
  if (!setup_->held.empty()) read_hello();
}

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
  const std::optional<uint32_t> upstream = acceptor_.listener().router.route({hello, setup_->agreed.get()});
  if (!upstream) return finish(SessionEnd::kNoRoute);
  upstream_index_ = *upstream;
  balancer_ = &acceptor_.balancer(*upstream);
  state_ = State::kConnecting;
  connect_next();
}

void L4Session::connect_next() {
  while (setup_->attempts < balancer_->upstream().config().connect_attempts) {
    const std::optional<uint32_t> endpoint = balancer_->pick(setup_->tried, acceptor_.worker().now_ms());
    if (!endpoint) break;
    endpoint_index_ = *endpoint;
    setup_->tried.add(*endpoint);
    ++setup_->attempts;
    if (open_upstream()) return;
  }
  finish(SessionEnd::kNoEndpoint);
}

bool L4Session::open_upstream() {
  const config::Address& address = balancer_->upstream().endpoint_config(endpoint_index_).address;
  const int fd = open_upstream_socket(balancer_->upstream().config(), address.family());
  if (fd < 0) {
    endpoint_counters().connect_errors[static_cast<size_t>(connect_error_of(errno))].add();
    return false;
  }
  balancer_->upstream().endpoint(endpoint_index_).active.fetch_add(1, std::memory_order_relaxed);
  endpoint_counted_ = true;
  arm_timer(acceptor_.worker().now_ms() + milliseconds(balancer_->upstream().config().connect_timeout));
  upstream_.connect(fd, address.data(), address.length());
  return true;
}

void L4Session::leave_endpoint() {
  if (!endpoint_counted_) return;
  endpoint_counted_ = false;
  balancer_->upstream().endpoint(endpoint_index_).active.fetch_sub(1, std::memory_order_relaxed);
}

void L4Session::on_connected(Socket&, int error) {
  if (state_ != State::kConnecting) return;
  if (error != 0) return connect_failed(connect_error_of(error));
  if (balancer_->upstream().config().tls || balancer_->upstream().config().alts) return begin_upstream_handshake();
  balancer_->upstream().report_success(endpoint_index_);
  endpoint_counters().connected.add();
  forward();
}

// The socket closes first; the next attempt starts when it has (on_closed).
void L4Session::connect_failed(ConnectError error) {
  endpoint_counters().connect_errors[static_cast<size_t>(error)].add();
  if (error != ConnectError::kLocal) {
    balancer_->upstream().report_failure(endpoint_index_, acceptor_.worker().now_ms());
  }
  leave_endpoint();
  if (tls_) tls_->upstream.handshake.reset();
  upstream_ended_ = false;
  retry_ = true;
  // An endpoint hears in TLS what was wrong with it.
  if (error != ConnectError::kTls || upstream_.queued() == 0) return upstream_.close();
  upstream_.shutdown_write();
  arm_timer(acceptor_.worker().now_ms() + kLastWordsMs);
}

void L4Session::forward() {
  Buffer header, held = std::move(setup_->held);
  if (!records_of(upstream_)) queue_proxy_header(header);  // Else it went before the handshake.
  setup_.reset();
  state_ = State::kForwarding;
  note_activity();
  on_timer();
  endpoint_counters().bytes_out.add(header.size());
  upstream_.send(std::move(header));
  client_.start_reading();
  upstream_.start_reading();
  // Their ends are passed on below, behind their data.
  const bool client_ended = client_ended_, upstream_ended = upstream_ended_;
  client_ended_ = upstream_ended_ = false;
  pass_on(client_, std::move(held));
  // What came behind the endpoint's handshake.
  if (state_ == State::kForwarding && records_of(upstream_)) pass_on(upstream_, Buffer());
  if (state_ == State::kForwarding && client_ended) on_end(client_);
  if (state_ == State::kForwarding && upstream_ended) on_end(upstream_);
}

void L4Session::queue_proxy_header(Buffer& to) {
  std::array<std::byte, kMaxWrittenProxyBytes> header;
  size_t bytes = 0;
  switch (balancer_->upstream().config().send_proxy_protocol) {
    case config::ProxyHeaderOut::kOff:
      return;
    case config::ProxyHeaderOut::kV1:
      bytes = write_proxy_v1(header, client_source(), client_destination());
      break;
    case config::ProxyHeaderOut::kV2: {
      const std::optional<ProxyTls> tls = setup_->agreed ? std::optional(said_of(*setup_->agreed)) : std::nullopt;
      bytes = write_proxy_v2(header, client_source(), client_destination(), tls ? &*tls : nullptr);
      break;
    }
  }
  // Beyond the budget if need be: it is a few bytes, and cannot wait until the posted chunks leave room.
  Lease lease(ChunkRef::take(acceptor_.worker().pool().get_metadata(bytes)), 0, 0);
  lease.grow_back(bytes);
  counted_copy(lease.data(), header.data(), bytes);
  to.append(std::move(lease));
}

// Whose connection this is: as the PROXY header said, else as the kernel does.
PeerAddress L4Session::client_source() const {
  if (setup_ && setup_->source.is_set()) return setup_->source;
  sockaddr_storage address;
  socklen_t length = sizeof address;
  if (getpeername(client_.fd(), reinterpret_cast<sockaddr*>(&address), &length) != 0) return {};
  return PeerAddress::copy_of(reinterpret_cast<sockaddr*>(&address), length);
}

PeerAddress L4Session::client_destination() const {
  if (setup_->destination.is_set()) return setup_->destination;
  sockaddr_storage address;
  socklen_t length = sizeof address;
  if (getsockname(client_.fd(), reinterpret_cast<sockaddr*>(&address), &length) != 0) return {};
  return PeerAddress::copy_of(reinterpret_cast<sockaddr*>(&address), length);
}

void L4Session::on_data(Socket& socket, Buffer&& data) {
  switch (state_) {
    case State::kProxyHeader:
      setup_->held.append(std::move(data));
      return read_proxy_header();
    case State::kHello:
      setup_->held.append(std::move(data));
      return read_hello();
    case State::kHandshake:
      return go_on_with_handshake(client_, std::move(data));
    case State::kConnecting:
      if (!is_client(socket)) {
        return retry_ ? void() : go_on_with_handshake(upstream_, std::move(data));
      }
      // Going on costs less than to stop and start again, as long as it is little.
      setup_->held.append(std::move(data));
      if (setup_->held.size() >= high_mark()) client_.stop_reading();
      return;
    case State::kLastWords:
    case State::kClosing:
      return;
    case State::kForwarding:
      break;
  }
  note_activity();
  pass_on(socket, std::move(data));
}

void L4Session::pass_on(Socket& from, Buffer&& data) {
  ChunkPool& pool = acceptor_.worker().pool();
  RecordLayer::Status status = RecordLayer::Status::kOpen;
  if (RecordLayer* records = records_of(from)) {
    Buffer plain;
    status = records->open(pool, std::move(data), plain);
    if (!is_client(from)) take_session_tickets();
    data = std::move(plain);
    // Not behind our end, if that was said already.
    if (records->has_output() && !ended(other(from))) {
      Buffer answer;
      records->flush(pool, answer);
      from.send(std::move(answer));
    }
  }
  Socket& to = other(from);
  if (const size_t bytes = data.size(); bytes > 0) {
    if (is_client(from)) {
      counters().bytes_in.add(bytes);
      endpoint_counters().bytes_out.add(bytes);
    } else {
      endpoint_counters().bytes_in.add(bytes);
      counters().bytes_out.add(bytes);
    }
    if (RecordLayer* records = records_of(to)) {
      Buffer wire;
      records->seal(pool, std::move(data), wire);
      data = std::move(wire);
    }
    to.send(std::move(data));
    if (to.queued() >= high_mark()) from.stop_reading();
  }
  if (status == RecordLayer::Status::kFailed) {
    log_failure(from, records_of(from)->error());
    return finish_after_last_words(is_client(from) ? SessionEnd::kTlsError : SessionEnd::kUpstreamError, from);
  }
  if (status == RecordLayer::Status::kEnded) side_ended(from);
}

// What may wait for one side. No session may take more than a share of what is left of the worker's chunk budget, so
// that many slow readers together leave something for the others.
size_t L4Session::high_mark() const {
  const size_t share = acceptor_.worker().pool().headroom_bytes() / kHighMarkShare;
  return std::min<size_t>(acceptor_.tcp().buffer_high.bytes, std::max(share, kHighMarkMin));
}

size_t L4Session::receive_credit(Socket& socket) {
  if (tls_ && (is_client(socket) ? tls_->client : tls_->upstream).handshake && !records_of(socket)) {
    return kHandshakeCreditBytes;
  }
  const size_t queued = other(socket).queued(), high = high_mark();
  return high > queued ? high - queued : 0;
}

void L4Session::note_activity() {
  last_active_ms_ = acceptor_.worker().now_ms();
  if (!quiet_) return;
  quiet_ = false;
  on_timer();  // It may be set for as far as idle_timeout.
}

void L4Session::on_sent(Socket& socket) {
  if (state_ == State::kLastWords && socket.write_shut()) return finish(end_);
  if (state_ == State::kConnecting && retry_ && upstream_.write_shut()) return upstream_.close();
  if (state_ != State::kForwarding) return;
  note_activity();
  if (socket.queued() <= std::min<size_t>(acceptor_.tcp().buffer_low.bytes, high_mark() / 2)) {
    other(socket).start_reading();
  }
  maybe_finished();
}

void L4Session::on_end(Socket& socket) {
  switch (state_) {
    case State::kHandshake:
      if (wants_bytes(client_)) return finish(SessionEnd::kClientLeft);
      client_ended_ = true;  // It may have said all that it had to.
      return;
    case State::kConnecting:
      // The client may have sent all it has to say and its end behind it; the endpoint, in the middle of a handshake.
      if (is_client(socket)) {
        client_ended_ = true;
      } else if (retry_) {
        upstream_.close();
      } else if (wants_bytes(upstream_)) {
        connect_failed(ConnectError::kTls);
      } else {
        upstream_ended_ = true;
      }
      return;
    case State::kForwarding:
      // Without an end in TLS nobody knows whether this is where the peer meant to end. It is what most peers do.
      if (RecordLayer* records = records_of(socket); records && records->tells_end() && !ended(socket)) {
        (is_client(socket) ? counters().tls_truncated : endpoint_counters().tls_truncated).add();
        return side_ended(socket, /*truncated=*/true);
      }
      return side_ended(socket);
    case State::kLastWords:
      return finish(end_);
    default:
      return finish(SessionEnd::kClientLeft);
  }
}

// The side sends nothing more: the other is told, once.
void L4Session::side_ended(Socket& socket, bool truncated) {
  if (ended(socket)) return;
  if (is_client(socket)) {
    client_ended_ = true;
  } else {
    upstream_ended_ = true;
  }
  Socket& to = other(socket);
  // What may have been cut is not to look whole on the other side.
  if (RecordLayer* records = records_of(to); records && !truncated) {
    Buffer wire;
    records->seal_end(acceptor_.worker().pool(), wire);
    to.send(std::move(wire));
  }
  to.shutdown_write();
  maybe_finished();
}

// Both ends were passed on: nothing can follow.
void L4Session::maybe_finished() {
  if (client_ended_ && upstream_ended_ && client_.write_shut() && upstream_.write_shut()) {
    finish(SessionEnd::kFinished);
  }
}

void L4Session::on_error(Socket& socket, int error) {
  if (state_ == State::kClosing) return;
  if (state_ == State::kLastWords) return finish(end_);
  if (!is_client(socket) && state_ == State::kConnecting) {
    return retry_ ? upstream_.close() : connect_failed(connect_error_of(error));
  }
  finish(is_client(socket) ? SessionEnd::kClientError : SessionEnd::kUpstreamError);
}

void L4Session::on_timer() {
  const uint64_t now = acceptor_.worker().now_ms();
  switch (state_) {
    case State::kProxyHeader:
      return finish(SessionEnd::kProxyTimeout);
    case State::kHello:
      return finish(SessionEnd::kHelloTimeout);
    case State::kHandshake:
      return look_after_handshake();
    case State::kLastWords:
      return finish(end_);
    case State::kConnecting:
      if (retry_) return upstream_.close();
      if (tls_ && tls_->upstream.handshake) {
        log_late_handshake(upstream_, milliseconds(balancer_->upstream().config().connect_timeout));
      }
      return connect_failed(ConnectError::kTimeout);
    case State::kClosing:
      return;
    case State::kForwarding:
      break;
  }
  // Activity only notes the time; the timer looks at it when it fires, and sleeps on if there was some.
  const uint64_t idle_ms = milliseconds(acceptor_.tcp().idle_timeout);
  const uint64_t max_ms = milliseconds(acceptor_.tcp().max_duration);
  const uint64_t quiet_ms = idle_ms > 0 ? std::min(kQuietMs, idle_ms / 2) : kQuietMs;
  if (now >= last_active_ms_ + quiet_ms) look_after_quiet();
  if (state_ == State::kClosing) return;
  uint64_t due = quiet_ ? UINT64_MAX : last_active_ms_ + quiet_ms;
  if (idle_ms > 0) {
    if (now >= last_active_ms_ + idle_ms) return finish(SessionEnd::kIdleTimeout);
    due = std::min(due, last_active_ms_ + idle_ms);
  }
  if (const uint64_t stuck_ms = milliseconds(acceptor_.tcp().stuck_timeout); stuck_ms > 0 && has_queued()) {
    if (now >= last_active_ms_ + stuck_ms && acceptor_.worker().should_give_way()) {
      look_after_quiet();
      if (state_ == State::kClosing) return;
      if (now >= last_active_ms_ + stuck_ms) return finish(SessionEnd::kStuck);
    }
    const uint64_t retry_ms = acceptor_.worker().short_of_memory() ? kGiveWayRetryMs : kQuietMs;
    due = std::min(due, std::max(last_active_ms_ + stuck_ms, now + retry_ms));
  }
  if (max_ms > 0) {
    if (now >= started_ms_ + max_ms) return finish(SessionEnd::kMaxDuration);
    due = std::min(due, started_ms_ + max_ms);
  }
  if (due != UINT64_MAX) arm_timer(due);
}

// What completions do not tell: a reset that came together with data, and the progress of a send to a slow reader.
void L4Session::look_after_quiet() {
  quiet_ = true;
  if (tls_) {
    for (Socket* const socket : {&client_, &upstream_}) park_records(*socket);
    tls_->upstream.handshake.reset();
  }
  if (client_.failed()) return finish(SessionEnd::kClientError);
  if (upstream_.failed()) return finish(SessionEnd::kUpstreamError);
  if (!has_queued()) return;
  const uint64_t acknowledged = client_.acknowledged() + upstream_.acknowledged();
  if (std::exchange(acknowledged_, acknowledged) != acknowledged) note_activity();
}

// What the records of a side owe its peer goes out now: it may be long before there is something else to send.
void L4Session::park_records(Socket& socket) {
  RecordLayer* const records = records_of(socket);
  if (!records) return;
  if (!ended(other(socket))) {
    Buffer owed;
    records->flush(acceptor_.worker().pool(), owed);
    socket.send(std::move(owed));
  }
  records->park(acceptor_.worker().pool());
}

void L4Session::finish(SessionEnd end) {
  if (state_ == State::kClosing) return;
  const bool told = std::exchange(state_, State::kClosing) == State::kLastWords;
  counters().ended[static_cast<size_t>(end)].add();
  timer_.cancel();
  leave_endpoint();
  if (tls_ && tls_->client.handshake) tls_->client.handshake->place.reset();
  // Cut in the middle, both sides see a reset: an orderly end would make truncated data look complete.
  const bool cut = !told && (end == SessionEnd::kClientError || end == SessionEnd::kUpstreamError ||
                             end == SessionEnd::kIdleTimeout || end == SessionEnd::kMaxDuration ||
                             end == SessionEnd::kStuck || end == SessionEnd::kShutdown);
  cut ? client_.abort() : client_.close();
  cut ? upstream_.abort() : upstream_.close();
}

// The side that was wrong hears in TLS why; the other, with a reset, that what it got is not all.
void L4Session::finish_after_last_words(SessionEnd end, Socket& to) {
  state_ = State::kLastWords;
  end_ = end;
  other(to).abort();
  to.stop_reading();
  to.shutdown_write();
  if (to.write_shut()) return finish(end);
  arm_timer(acceptor_.worker().now_ms() + kLastWordsMs);
}

void L4Session::on_closed(Socket& socket) {
  if (!is_client(socket) && state_ == State::kConnecting && retry_) {
    retry_ = false;
    return connect_next();
  }
  if (state_ != State::kClosing || client_.busy() || upstream_.busy()) return;
  acceptor_.worker().defer([](void* self) { delete static_cast<L4Session*>(self); }, this);
}

}  // namespace sluice
