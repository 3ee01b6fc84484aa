#include "proxy/listener/listener_choice.h"

#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <span>
#include <utility>

#include "absl/strings/str_cat.h"
#include "alts_like/client_hello.h"
#include "net/worker.h"
#include "proxy/config/model/units.h"
#include "proxy/listener/connection_setup.h"
#include "proxy/listener/shared_address.h"
#include "proxy/transport/handshakes.h"
#include "proxy/transport/proxy_protocol.h"

namespace sluice {

namespace {

// All that can come before the listener is known.
constexpr size_t kMostHelloInput = kMaxProxyV2Bytes + kMaxClientHelloBytes;

// Where the kernel reports input before there is as much as SO_RCVLOWAT says (as it does on Unix sockets), the next
// look at it comes after this pause.
constexpr uint64_t kLookPauseMs = 10;

// How long to wait, after an alert, for the client to end its side too.
constexpr uint64_t kAlertWaitMs = 1000;
// How much a client may send in one turn of the loop after an alert, in pieces of the size above.
constexpr int kDroppedPieces = 4;

// Of RFC 8446 section 6.2. The first one is that of a server that needs a name (section 9.2).
constexpr uint8_t kMissingExtension = 109, kUnrecognizedName = 112;

std::span<std::byte> hello_scratch() {
  static thread_local std::array<std::byte, kMostHelloInput> scratch;
  return scratch;
}

void set_low_water(int fd, int bytes) { setsockopt(fd, SOL_SOCKET, SO_RCVLOWAT, &bytes, sizeof bytes); }

}  // namespace

void ListenerChoice::start(ClientAcceptor& acceptor, int fd, int family) {
  (new ListenerChoice(acceptor, fd, family))->begin();
}

ListenerChoice::ListenerChoice(ClientAcceptor& acceptor, int fd, int family)
    : acceptor_(acceptor),
      wait_(acceptor.worker().ring(), *this),
      timer_([](void* self) { static_cast<ListenerChoice*>(self)->on_timer(); }, this),
      started_ms_(acceptor.worker().now_ms()),
      fd_(fd),
      family_(family) {
  acceptor_.joined(*this);
}

ListenerChoice::~ListenerChoice() {
  if (!passed_on_) acceptor_.choice_left(*this);
}

PeerAddress ListenerChoice::peer() const { return PeerAddress::peer_of(fd_); }

StayReason ListenerChoice::stay_reason() const {
  return state_ == State::kReading ? StayReason::kHandshake : StayReason::kEnding;
}

ConnectionFacts ListenerChoice::facts() const {
  return {.kind = SessionKind::kTcp,
          .state = state_ == State::kReading ? ConnectionState::kInspecting : ConnectionState::kClosing,
          .started_ms = started_ms_,
          .active_ms = started_ms_};
}

void ListenerChoice::arm_timer() { acceptor_.worker().timers().arm(timer_, due_ms_); }

void ListenerChoice::begin() {
  const config::ProxyProtocol& proxy = acceptor_.listener().config->proxy_protocol;
  const HeaderRule rule = header_rule(proxy, fd_);
  if (rule == HeaderRule::kUntrusted) return pass_to(acceptor_.shared()->first());
  expects_header_ = rule == HeaderRule::kExpected;
  if (!expects_header_ && !take_source_place(PeerAddress())) return refuse(Refusal::kSource);
  due_ms_ = started_ms_ + (expects_header_ ? config::milliseconds(proxy.timeout) : acceptor_.shared()->hello_ms());
  arm_timer();
  wait_.begin(fd_);
}

// The listener that accepts counts the sources of connections that no listener has yet. `source`: from the PROXY
// header; not set: the peer.
bool ListenerChoice::take_source_place(const PeerAddress& source) {
  if (std::exchange(admitted_, true)) return true;
  SourceLimit& sources = acceptor_.listener().limits->sources;
  if (!sources.enabled()) return true;
  const PeerAddress address = source.is_set() ? source : peer();
  Source key;
  if (!address.is_set() || !Source::from(address.data(), key)) return true;
  source_place_ = sources.take_place(key);
  return source_place_ != nullptr;
}

void ListenerChoice::on_readable(bool ended) {
  switch (state_) {
    case State::kReading:
      return read(ended);
    case State::kAlert:
      drop_input();
      return ended ? close(/*cut=*/false) : wait_.begin(fd_);
    case State::kClosing:
      ::close(fd_);
      delete this;
  }
}

void ListenerChoice::on_timer() {
  if (state_ == State::kAlert) return close(/*cut=*/false);
  if (state_ == State::kClosing) return;
  if (acceptor_.worker().now_ms() < due_ms_) {
    arm_timer();
    if (!wait_.waiting()) wait_.begin(fd_);
    return;
  }
  finish(expects_header_ && !admitted_ ? SessionEnd::kProxyTimeout : SessionEnd::kHelloTimeout);
}

// ---- What the client says

void ListenerChoice::read(bool ended) {
  const std::span<std::byte> to = hello_scratch();
  const ssize_t received = recv(fd_, to.data(), to.size(), MSG_PEEK | MSG_DONTWAIT);
  if (received == 0) return finish(SessionEnd::kClientLeft);
  if (received < 0) {
    if (errno != EAGAIN && errno != EINTR) return finish(SessionEnd::kClientError);
    return ended ? finish(SessionEnd::kClientLeft) : pause();
  }
  const auto bytes = static_cast<size_t>(received);
  if (bytes < wanted_) return ended ? finish(SessionEnd::kClientLeft) : pause();
  Buffer copy;
  copy.append_copy_beyond_budget(acceptor_.worker().pool(), to.first(bytes));
  inspect(std::move(copy), ended);
}

void ListenerChoice::inspect(Buffer&& received, bool ended) {
  if (expects_header_) {
    ProxyHeader header;
    const ProxyResult result = parse_proxy_header(received, header);
    if (result.status == ProxyStatus::kNeedMore) return await(result.bytes, ended);
    const bool lacks_it = result.status == ProxyStatus::kNotProxy &&
                          acceptor_.listener().config->proxy_protocol.accept == config::ProxyHeaderIn::kOptional;
    // The session of a listener says what is wrong with it.
    if (result.status != ProxyStatus::kComplete && !lacks_it) return pass_to(acceptor_.shared()->first());
    if (!admitted_) begin_hello();
    if (!take_source_place(header.source)) return refuse(Refusal::kSource);
    header_bytes_ = result.bytes;
    received.trim_front(header_bytes_);
  }
  ClientHello hello;
  const HelloResult result = parse_client_hello(received, hello);
  switch (result.status) {
    case HelloStatus::kNeedMore:
      return await(header_bytes_ + result.bytes, ended);
    case HelloStatus::kComplete:
      return choose(hello.server_name());
    case HelloStatus::kNotTls:
      return choose_without_hello();
    case HelloStatus::kMalformed:
    case HelloStatus::kTooLarge:
      log("closed: its ClientHello is malformed or too large");
      return finish(SessionEnd::kHello);
  }
}

// The PROXY header has come.
void ListenerChoice::begin_hello() {
  due_ms_ = acceptor_.worker().now_ms() + acceptor_.shared()->hello_ms();
  arm_timer();
}

// Waits until the client has sent `bytes`, without waking up for each piece.
void ListenerChoice::await(size_t bytes, bool ended) {
  if (ended) return finish(SessionEnd::kClientLeft);
  wanted_ = bytes;
  low_water_ = true;
  set_low_water(fd_, static_cast<int>(bytes));
  wait_.begin(fd_);
}

void ListenerChoice::pause() {
  const uint64_t now = acceptor_.worker().now_ms();
  acceptor_.worker().timers().arm(timer_, std::min(due_ms_, now + kLookPauseMs));
}

// ---- What follows

void ListenerChoice::choose(std::string_view name) {
  if (ClientAcceptor* const found = acceptor_.shared()->find(name)) return pass_to(found);
  if (acceptor_.shared()->gone()) return finish(SessionEnd::kShutdown);
  log(name.empty()
          ? std::string("closed: it sends no server name, and all listeners of its address have `server_names`")
          : absl::StrCat("closed: no listener of its address has the server name ", name));
  send_alert(name.empty() ? kMissingExtension : kUnrecognizedName);
}

// Whoever does not speak TLS gets the listener for all other names.
void ListenerChoice::choose_without_hello() {
  if (ClientAcceptor* const rest = acceptor_.shared()->find("")) return pass_to(rest);
  log("closed: it does not begin with a ClientHello");
  finish(SessionEnd::kHello);
}

// `to`: null if the addresses are gone.
void ListenerChoice::pass_to(ClientAcceptor* to) {
  if (!to) return finish(SessionEnd::kShutdown);
  if (low_water_) set_low_water(fd_, 1);
  timer_.cancel();
  source_place_.reset();  // The chosen listener counts the source by itself.
  passed_on_ = true;
  acceptor_.pass_on(*this, *to, {fd_, family_});
  delete this;
}

void ListenerChoice::send_alert(uint8_t description) {
  constexpr uint8_t kAlertRecord = 21, kFatal = 2;
  const uint8_t record[] = {kAlertRecord, 3, 3, 0, 2, kFatal, description};
  count_end(SessionEnd::kServerName);
  state_ = State::kAlert;
  drop_input();
  if (low_water_) set_low_water(fd_, 1);
  // A socket that has sent nothing yet has room for it.
  (void)send(fd_, record, sizeof record, MSG_NOSIGNAL | MSG_DONTWAIT);
  ::shutdown(fd_, SHUT_WR);
  due_ms_ = acceptor_.worker().now_ms() + kAlertWaitMs;
  arm_timer();
  wait_.begin(fd_);
}

void ListenerChoice::drop_input() {
  const std::span<std::byte> to = hello_scratch();
  for (int i = 0; i < kDroppedPieces && recv(fd_, to.data(), to.size(), MSG_DONTWAIT) > 0; ++i) {
  }
}

// ---- The end

bool ListenerChoice::shut_down() {
  const bool was_open = state_ == State::kReading;
  if (state_ != State::kClosing) finish(SessionEnd::kShutdown);
  return was_open;
}

void ListenerChoice::count_end(SessionEnd end) {
  acceptor_.counters().accepted.add();
  acceptor_.counters().ended[static_cast<size_t>(end)].add();
}

void ListenerChoice::finish(SessionEnd end) {
  if (state_ == State::kReading) count_end(end);
  close(/*cut=*/true);
}

void ListenerChoice::refuse(Refusal reason) {
  log("refused: its address has as many connections as `max_connections_per_source` allows");
  acceptor_.counters().accepted.add();
  acceptor_.counters().refused[static_cast<size_t>(reason)].add();
  close(/*cut=*/true);
}

// `cut`: by a reset. Closing a descriptor ends no wait for it, so that comes first.
void ListenerChoice::close(bool cut) {
  state_ = State::kClosing;
  timer_.cancel();
  const linger reset{1, 0};
  if (cut) setsockopt(fd_, SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
  if (wait_.waiting()) return wait_.cancel();
  ::close(fd_);
  delete this;
}

void ListenerChoice::log(std::string_view what) const {
  log_client(acceptor_.worker(), *acceptor_.listener().config, text_of(peer()), what);
}

}  // namespace sluice
