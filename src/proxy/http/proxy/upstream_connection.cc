#include "proxy/http/proxy/upstream_connection.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "net/worker.h"
#include "proxy/http/h1/http1_client.h"
#include "proxy/http/proxy/http_services.h"
#include "proxy/http/proxy/upstream_caller.h"
#include "proxy/http/proxy/upstream_pool.h"
#include "proxy/log/run_log.h"
#include "proxy/transport/handshakes.h"
#include "proxy/transport/upstream_socket.h"

namespace sluice {

namespace {

// Requests take the connection that became idle last, so it is found at once, however many there are.
bool erase_from_back(std::vector<UpstreamConnection*>& list, const UpstreamConnection* connection) {
  const auto found = std::find(list.rbegin(), list.rend(), connection);
  if (found == list.rend()) return false;
  list.erase(std::next(found).base());
  return true;
}

// A connection is checked once after this long without activity.
constexpr uint64_t kQuietMs = 1000;

// How long an endpoint may take nothing of the remaining output.
constexpr uint64_t kStuckMs = 30'000;

// How much may be queued in the transport before the codec keeps its output. The effective limit is the mark of each
// stream.
constexpr size_t kSendMark = size_t{256} * 1024;

// What opening a connection takes of the turn's budget: about as long as decoding these bytes of heads. It makes 64 in
// a turn.
constexpr size_t kOpenBytes = size_t{16} * 1024;

using config::milliseconds;

}  // namespace

UpstreamConnection::UpstreamConnection(UpstreamPool& upstream, uint32_t endpoint, uint64_t number, uint32_t place)
    : HttpConnection(upstream.services()), upstream_(upstream), number_(number), endpoint_(endpoint), place_(place) {
  ++upstream_.existing_;
  upstream_.endpoint_counters(endpoint_).open.add();
  upstream_.hold(endpoint_);
}

UpstreamConnection::~UpstreamConnection() {
  upstream_.let_go(endpoint_);
  upstream_.endpoint_counters(endpoint_).open.subtract();
  --upstream_.existing_;
}

// ---- Connecting ----

void UpstreamConnection::connect() {
  idle_since_ms_ = services_.worker().now_ms();
  arm_timer(idle_since_ms_ + milliseconds(upstream_.config().connect_timeout));
  wake();
}

// At the end of the turn, the requests that clients have cancelled in it wait no more. It is the kernel that takes long
// to open a connection, more than all that the proxy does for a small request, so each turn opens a bounded number.
void UpstreamConnection::on_woken() {
  if (state_ != State::kConnecting || opened()) return;
  if (waiting_count_ == 0) {
    leave_lists();
    return close();
  }
  if (take_time(kOpenBytes)) open();
}

void UpstreamConnection::open() {
  upstream_.endpoint_counters(endpoint_).begun.add();
  const config::Address& address = upstream_.state().address(endpoint_);
  const int fd = open_upstream_socket(upstream_.config(), address.family());
  if (fd < 0) return connect_failed(connect_error_of(errno));
  upstream_.counters_.connections_opened.add();
  transport_.connect(fd, address.data(), address.length());
}

void UpstreamConnection::on_connected(Transport&, int error) {
  if (state_ != State::kConnecting) return;
  if (error != 0) return connect_failed(connect_error_of(error));
  if (!upstream_.config().tls && !upstream_.config().alts) return begin();
  Handshaking& handshaking = transport_.prepare_handshake();
  generation_ = make_endpoint_handshake(upstream_.state(), endpoint_, services_.handshakers(), upstream_.sessions(),
                                        transport_.socket(), handshaking);
  transport_.begin_handshake();
}

void UpstreamConnection::on_secured(Transport&, const Agreement& agreement) {
  EndpointCounters& counters = upstream_.endpoint_counters(endpoint_);
  counters.tls_handshakes.add();
  if (agreement.resumed) counters.tls_resumed.add();
  begin();
  if (state_ != State::kGone) transport_.release_arrived();
}

void UpstreamConnection::on_insecure(Transport&, std::string_view error) {
  if (state_ != State::kConnecting) return;
  connect_failed(ConnectError::kTls, describe_failure(upstream_.config(), error));
}

void UpstreamConnection::on_session(Transport&, bssl::UniquePtr<SSL_SESSION> session) {
  upstream_.sessions().put(endpoint_, generation_, std::move(session));
}

// Logs a failure of a connection that was good before.
void UpstreamConnection::log_failure(std::string_view error) {
  static thread_local LogLimit limit;
  if (!log_enabled(LogLevel::kWarning) || !log_admits(limit, services_.worker().now_ms())) return;
  const std::string endpoint = upstream_.state().describe(endpoint_);
  log_line(LogLevel::kWarning,
           absl::StrCat("upstream \"", upstream_.config().name, "\": ", upstream_.config().alts ? "ALTS" : "TLS",
                        " with ", endpoint, " failed: ", error, left_out_text(limit)),
           {.upstream = upstream_.config().name, .endpoint = endpoint, .reason = error});
}

// Starts HTTP. The socket is connected, and the handshake, if there is one, is done.
void UpstreamConnection::begin() {
  if (upstream_.speaks_http2()) {
    // It is ready when the peer's SETTINGS arrive. Until then it is unknown whether the endpoint speaks HTTP/2, and how
    // many streams it accepts.
    speak(make_codec<Http2Codec>(upstream_.http2_shared_));
    return;
  }
  speak(make_codec<Http1Client>(services_.worker().pool(), upstream_.http1_, upstream_.counters_.codecs.http1));
  become_ready();
}

void UpstreamConnection::become_ready() {
  state_ = State::kReady;
  const uint64_t began_ms = std::exchange(idle_since_ms_, services_.worker().now_ms());
  upstream_.latencies().connect.add(idle_since_ms_ - began_ms);
  std::erase(upstream_.endpoints_[endpoint_].connecting, this);
  upstream_.state().report_success(endpoint_, services_.worker().now_ms());
  upstream_.endpoint_counters(endpoint_).connected.add();
  if (upstream_.speaks_http2()) {
    upstream_.endpoints_[endpoint_].streams = static_cast<Http2Codec&>(*codec_).peer_streams();
  }
  // Callers for which there is no room look for another connection.
  while (UpstreamCaller* const caller = first_waiting_) {
    remove_waiting(*caller);
    if (!attach(*caller)) caller->on_no_room();
  }
  become_idle();
}

void UpstreamConnection::connect_failed(ConnectError error, std::string_view detail) {
  upstream_.endpoint_counters(endpoint_).connect_errors[static_cast<size_t>(error)].add();
  if (error != ConnectError::kLocal) {
    upstream_.state().report_failure(endpoint_, services_.worker().now_ms(), error, detail);
  }
  leave_lists();
  // In TLS, the queued alert shows the endpoint what was wrong.
  error == ConnectError::kTls ? linger(/*cut=*/true) : close();
  while (UpstreamCaller* const caller = first_waiting_) {
    remove_waiting(*caller);
    caller->on_connect_failed();
  }
}

void UpstreamConnection::add_waiting(UpstreamCaller& caller) {
  UpstreamCaller** last = &first_waiting_;
  while (*last) last = &(*last)->next_waiting;
  caller.next_waiting = nullptr;
  caller.set_awaited(this);
  *last = &caller;
  ++waiting_count_;
  ++upstream_.pending_;
  upstream_.counters_.waited.add();
  upstream_.counters_.waiting.add();
}

void UpstreamConnection::remove_waiting(UpstreamCaller& caller) {
  for (UpstreamCaller** at = &first_waiting_; *at; at = &(*at)->next_waiting) {
    if (*at != &caller) continue;
    *at = caller.next_waiting;
    caller.set_awaited(nullptr);
    --waiting_count_;
    --upstream_.pending_;
    upstream_.counters_.waiting.subtract();
    return;
  }
}

void UpstreamConnection::replace_waiting(UpstreamCaller& caller, UpstreamCaller& by) {
  UpstreamCaller** at = &first_waiting_;
  while (*at != &caller) at = &(*at)->next_waiting;
  by.next_waiting = caller.next_waiting;
  *at = &by;
  caller.set_awaited(nullptr);
  by.set_awaited(this);
}

// ---- Requests ----

bool UpstreamConnection::accepts_protocols() const {
  if (!upstream_.speaks_http2()) return true;
  return static_cast<const Http2Codec&>(*codec_).accepts_protocols();
}

bool UpstreamConnection::looks_alive() const {
  pollfd seen{transport_.socket().fd(), POLLRDHUP, 0};
  // With TLS, the unread data may be a session ticket.
  if (!transport_.secured()) seen.events |= POLLIN;
  return ::poll(&seen, 1, 0) == 0;
}

bool UpstreamConnection::attach(UpstreamCaller& caller) {
  HttpStream* const stream = state_ == State::kReady && !ending() && !draining_ ? codec_->open_stream(caller) : nullptr;
  if (!stream) {
    leave_lists();
    return false;
  }
  add_user();
  ++requests_;
  if (!upstream_.speaks_http2()) leave_lists();
  const uint32_t limit = upstream_.config().pool.max_requests;
  if (limit != 0 && requests_ >= limit) {
    leave_lists();
    draining_ = true;
  }
  upstream_.counters().requests.add();
  upstream_.endpoint_counters(endpoint_).requests.add();
  caller.on_upstream(*this, *stream);
  wake();
  return true;
}

void UpstreamConnection::add_user() {
  ++users_;
  upstream_.endpoint_counters(endpoint_).requests_active.add();
}

void UpstreamConnection::detach() {
  upstream_.endpoint_counters(endpoint_).requests_active.subtract();
  if (--users_ == 0) idle_since_ms_ = services_.worker().now_ms();
  if (state_ == State::kReady && !upstream_.speaks_http2() && !ending()) become_idle();  // For the next request.
  wake();  // The connection may be free only now.
}

// Lists the connection where requests find it, if it accepts more.
void UpstreamConnection::become_idle() {
  if (state_ != State::kReady || ending() || upstream_.closed_) return;
  if (codec_->status() != HttpCodec::Status::kOpen) {
    arm_timer(services_.worker().now_ms() + kQuietMs);  // Its remaining output may find no room in the socket.
    return leave_lists();
  }
  UpstreamPool::Endpoint& endpoint = upstream_.endpoints_[endpoint_];
  const bool http2 = upstream_.speaks_http2();
  if ((http2 && static_cast<Http2Codec&>(*codec_).draining()) || !upstream_.is_present(endpoint_)) {
    leave_lists();
    draining_ = true;
  }
  if (users_ == 0) {
    const uint64_t now = services_.worker().now_ms();
    quiet_ = false;
    if (draining_) {
      arm_timer(now + kQuietMs);
      if (codec_->status() != HttpCodec::Status::kOpen) return;
      codec_->drain();
      return wake();
    }
    // Frames without a request, such as PING, do not postpone idle_timeout.
    const uint64_t idle_ms = milliseconds(upstream_.config().pool.idle_timeout);
    arm_timer(idle_ms > 0 ? std::min(now + kQuietMs, idle_since_ms_ + idle_ms) : now + kQuietMs);
  }
  if (listed_ || draining_) return;
  if (http2) {
    endpoint.shared.push_back(this);
    listed_ = true;
  } else if (users_ == 0 && codec_->streams() == 0 && !has_unsent()) {
    endpoint.idle.push_back(this);
    listed_ = true;
    if (upstream_.config().pool.max_idle == 0) drain();
  }
}

// Whether output is left, for example of a request whose response arrived before the endpoint read all of it. The next
// request would wait behind it.
bool UpstreamConnection::has_unsent() const { return codec_->has_output() || transport_.queued() > 0; }

void UpstreamConnection::leave_lists() {
  UpstreamPool::Endpoint& endpoint = upstream_.endpoints_[endpoint_];
  if (std::exchange(listed_, false)) {
    if (!erase_from_back(endpoint.idle, this)) erase_from_back(endpoint.shared, this);
  }
  if (state_ == State::kConnecting) {
    state_ = State::kGone;
    std::erase(endpoint.connecting, this);
  }
}

void UpstreamConnection::drain() {
  if (state_ == State::kConnecting) return connect_failed(ConnectError::kLocal);
  leave_lists();
  draining_ = true;
  codec_->drain();
  arm_timer(services_.worker().now_ms() + kQuietMs);
  wake();
}

// A connection that is connecting or in use is drained later, when become_idle() sees that its endpoint is gone.
void UpstreamConnection::retire() {
  if (state_ == State::kReady && users_ == 0) return drain();
  if (state_ == State::kReady) leave_lists();
}

void UpstreamConnection::suspect(uint64_t sent_ms) {
  if (!upstream_.speaks_http2() || last_received_ms_ > sent_ms) return;
  leave_lists();
  draining_ = true;
}

// ---- The connection ----

void UpstreamConnection::on_data(Transport& transport, Buffer&& data) {
  if (group_) [[unlikely]]
    return late_.append(std::move(data));
  upstream_.endpoint_counters(endpoint_).bytes_in.add(data.size());
  last_received_ms_ = services_.worker().now_ms();
  HttpConnection::on_data(transport, std::move(data));
}

void UpstreamConnection::on_sent(Transport& transport) {
  HttpConnection::on_sent(transport);
  if (state_ == State::kReady && users_ == 0 && !listed_ && !ending() && transport_.queued() == 0) wake();
}

// Arms the timer again, so that the connection is parked and frees the chunk of a partial record.
void UpstreamConnection::on_part(Transport&) {
  if (std::exchange(quiet_, false) && !ending()) arm_timer(services_.worker().now_ms() + kQuietMs);
}

void UpstreamConnection::on_end(Transport& transport, bool truncated) {
  stop_moving();
  if (state_ == State::kConnecting && !ending()) {
    if (upstream_.speaks_http2() && !transport_.in_handshake()) {
      return connect_failed(
          ConnectError::kReset,
          "HTTP/2 failed: it closed before it sent its SETTINGS: does it speak HTTP/2 here? (`protocol: http2`)");
    }
    return connect_failed(ConnectError::kReset);
  }
  if (truncated) upstream_.endpoint_counters(endpoint_).tls_truncated.add();
  HttpConnection::on_end(transport, truncated);
}

void UpstreamConnection::on_record_error(Transport& transport, std::string_view error) {
  stop_moving();
  if (state_ == State::kConnecting && !ending()) {
    return connect_failed(ConnectError::kTls, describe_failure(upstream_.config(), error));
  }
  log_failure(error);
  HttpConnection::on_record_error(transport, error);
}

void UpstreamConnection::on_error(Transport& transport, int error) {
  stop_moving();
  if (state_ == State::kConnecting && !ending()) return connect_failed(connect_error_of(error));
  // A send failed. The endpoint may have responded before it reset the connection: the receive delivers what arrived,
  // then fails itself.
  if (!ending() && !transport.input_over() && codec_->streams() > 0) return transport.start_reading();
  HttpConnection::on_error(transport, error);
}

void UpstreamConnection::on_flushed(size_t bytes) { upstream_.endpoint_counters(endpoint_).bytes_out.add(bytes); }

void UpstreamConnection::on_pumped() {
  if (state_ == State::kConnecting) {
    if (!upstream_.speaks_http2() || !static_cast<Http2Codec&>(*codec_).greeted()) {
      return;
    }
    become_ready();
  } else {
    become_idle();
  }
}

void UpstreamConnection::on_codec_done() {
  stop_moving();
  if (state_ == State::kConnecting) {
    return connect_failed(ConnectError::kOther, absl::StrCat("HTTP failed: ", codec_->error()));
  }
  leave_lists();
  if (codec_->status() != HttpCodec::Status::kFailed) return linger(/*cut=*/false);
  const bool tunnel = !upstream_.speaks_http2() && static_cast<const Http1Client&>(*codec_).in_tunnel();
  tunnel && codec_->output_cut() ? cut_off() : reset();
}

void UpstreamConnection::on_timer() {
  if (lingering()) return linger_timeout();
  stop_moving();
  const uint64_t now = services_.worker().now_ms();
  if (state_ == State::kConnecting) {
    if (!transport_.in_handshake()) return connect_failed(ConnectError::kTimeout);
    return connect_failed(ConnectError::kTimeout, describe_slow_handshake(upstream_.config(), transport_));
  }
  if ((draining_ || users_ == 0 || codec_->status() != HttpCodec::Status::kOpen) && has_unsent()) {
    check_progress();
    return now >= last_sent_ms() + kStuckMs ? reset() : arm_timer(now + kQuietMs);
  }
  if (users_ > 0) return;
  if (!std::exchange(quiet_, true)) {
    codec_->park();
    if (!transport_.park()) return reset();
  }
  // It is left over from a burst. At once would be too early: with very many clients most connections would be opened
  // for one request.
  if (listed_ && upstream_.endpoints_[endpoint_].idle.size() > upstream_.config().pool.max_idle) return drain();
  const uint64_t idle_ms = milliseconds(upstream_.config().pool.idle_timeout);
  if (idle_ms == 0) return;
  if (now >= idle_since_ms_ + idle_ms) return drain();
  arm_timer(idle_since_ms_ + idle_ms);
}

void UpstreamConnection::on_gone() {
  stop_moving();
  leave_lists();
  state_ = State::kGone;
  upstream_.all_.back()->place_ = place_;
  std::swap(upstream_.all_[place_], upstream_.all_.back());
  upstream_.all_.pop_back();
  // The worker is shutting down. What still waits is a copy of a request, whose client does not keep it.
  while (UpstreamCaller* const caller = first_waiting_) {
    remove_waiting(*caller);
    caller->on_no_upstream(HttpEnd::kShutdown);
  }
  services_.worker().defer([](void* self) { delete static_cast<UpstreamConnection*>(self); }, this);
}

size_t UpstreamConnection::send_mark() const { return kSendMark; }

}  // namespace sluice
