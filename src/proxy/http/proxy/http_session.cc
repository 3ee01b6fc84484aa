#include "proxy/http/proxy/http_session.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <span>
#include <utility>

#include "net/worker.h"
#include "proxy/http/h1/http1_server.h"
#include "proxy/http/h1/writer.h"
#include "proxy/http/h2/http2_codec.h"
#include "proxy/http/message/http_date.h"
#include "proxy/http/proxy/body_buffer.h"
#include "proxy/http/proxy/http_listener.h"
#include "proxy/http/proxy/http_services.h"
#include "proxy/listener/client_acceptor.h"
#include "proxy/transport/handshakes.h"

namespace sluice {

namespace {

// A connection is checked once after this long without activity, and at this interval while there is activity.
constexpr uint64_t kQuietMs = 1000;

// A drain does not end a connection without a request before it is this old.
constexpr uint64_t kFirstRequestMs = 1000;

// How many body bytes an HTTP/2 connection must send to count as progress for all of its streams that wait for it.
constexpr uint32_t kProgressBytes = 4096;

// What a pipelined request takes of the turn's budget. One that fails to connect takes about as long as decoding these
// bytes of heads. It makes 64 requests in a turn.
constexpr size_t kPipelinedBytes = size_t{16} << 10;

// What a new connection takes of it, for itself and its first request. Neither waits, so while many clients connect,
// pipelined requests do.
constexpr size_t kNewConnectionBytes = 2 * kPipelinedBytes;

using config::milliseconds;

}  // namespace

void HttpSession::start(ClientAcceptor& acceptor, HttpListener& listener, HttpServices& worker, int fd, int family) {
  auto* const session = new HttpSession(acceptor, listener, worker);
  ChunkPool& pool = worker.worker().pool();
  session->transport_.adopt(fd, family);
  session->beginning_ = make_in_chunk<Beginning>(pool);
  session->beginning_->setup = make_in_chunk<ConnectionSetup>(pool, acceptor, session->transport_, *session);
  session->beginning_->setup->begin();
}

HttpSession::HttpSession(ClientAcceptor& acceptor, HttpListener& listener, HttpServices& worker)
    : HttpConnection(worker),
      acceptor_(&acceptor),
      listener_(&listener),
      last_body_ms_(static_cast<uint32_t>(acceptor.worker().now_ms())),
      waits_since32_ms_(last_body_ms_),
      started_ms_(acceptor.worker().now_ms()) {
  acceptor_->joined(*this);
}

HttpSession::~HttpSession() {
  codec_.reset();  // It refers to codec_settings_.
  acceptor_->left(*this);
}

// ---- Before the first request ----

void HttpSession::on_client_ready(Buffer&& first) {
  const ChunkPointer<ConnectionSetup> setup = std::move(beginning_->setup);
  transport_.set_owner(*this);
  services_.pump().head_budget().take(kNewConnectionBytes);
  const PeerAddress source = setup->source();
  client_ip_ = ClientIp(source);
  client_port_ = source.port();
  source_place_ = setup->take_source_place();
  agreed_ = setup->take_agreement();
  begin_to_wait();
  Version version = Version::kUnknown;
  if (agreed_) {
    if (agreed_->alpn == "h2") version = Version::kHttp2;
    if (agreed_->alpn == "http/1.1") version = Version::kHttp1;
    if (agreed_->peer_names.empty() && !listener_->keeps_agreement) agreed_.reset();
  }
  transport_.start_reading();
  follow_configuration();
  if (version != Version::kUnknown) {
    begin(version, std::move(first));
  } else {
    beginning_->first = std::move(first);
    arm_timer(waits_since_ms() + kQuietMs);
    inspect_first_bytes();
  }
  transport_.release_arrived();
}

void HttpSession::on_client_refused(Refusal reason) {
  acceptor_->counters().refused[static_cast<size_t>(reason)].add();
  end_counted_ = true;
  transport_.set_owner(*this);
  reset();
}

void HttpSession::on_client_failed(SessionEnd end) {
  count_end(end);
  transport_.set_owner(*this);
  switch (end) {
    case SessionEnd::kTlsHandshake:
      return linger(/*cut=*/true);
    case SessionEnd::kClientError:
      return reset();
    default:
      return close();
  }
}

// HTTP/2 with prior knowledge begins with the preface (RFC 9113 section 3.3), which is not a valid HTTP/1.1 request.
void HttpSession::inspect_first_bytes() {
  Buffer& first = beginning_->first;
  if (first.empty()) return;
  std::array<std::byte, kHttp2Preface.size()> scratch;
  const size_t size = std::min(first.size(), kHttp2Preface.size());
  const std::span<const std::byte> bytes = first.fetch(size, scratch);
  if (std::memcmp(bytes.data(), kHttp2Preface.data(), size) != 0) {
    begin(Version::kHttp1, std::move(first));
  } else if (size == kHttp2Preface.size()) {
    begin(Version::kHttp2, std::move(first));
  } else {
    first.compact(services_.worker().pool());
  }
}

void HttpSession::begin(Version version, Buffer&& first) {
  version_ = version;
  begin_to_wait();
  if (version == Version::kHttp2) {
    listener_->counters.connections_h2.add();
    codec_settings_ = listener_->codecs;
    speak(make_codec_in_chunk<Http2Codec>(services_.worker().pool(), codec_settings_->http2_shared, this));
  } else {
    listener_->counters.connections_h1.add();
    make_http1();
  }
  arm_timer(waits_since_ms() + kQuietMs);
  Buffer bytes = std::move(first);
  beginning_.reset();
  if (!bytes.empty()) HttpConnection::on_data(transport_, std::move(bytes));
  if (draining_ && !awaits_first_request()) codec_->drain();
}

void HttpSession::make_http1() {
  ChunkPool& pool = services_.worker().pool();
  codec_settings_ = listener_->codecs;
  speak(make_codec_in_chunk<Http1Server>(pool, pool, codec_settings_->http1, listener_->counters.codecs.http1, *this,
                                         version_count_));
  if (draining_) static_cast<Http1Server&>(*codec_).end_after_request();
}

// ---- Requests ----

StreamReceiver& HttpSession::on_stream(HttpStream& stream) {
  busy_ = true;  // Even if the response is finished before this batch.
  follow_configuration();
  if (services_.overload().reduces() && !http2()) [[unlikely]] {
    services_.overload().count(OverloadAction::kCloseAfterResponse);
    static_cast<Http1Server&>(*codec_).end_after_request();
  }
  return listener_->begin_exchange(*this, stream);
}

// On a shared connection, a byte now and then is not progress for all streams.
bool HttpSession::is_trickle() {
  if (!http2() || streams() == 1) return false;
  const uint32_t sent = static_cast<Http2Codec&>(*codec_).body_bytes_sent();
  if (sent - version_count_ < kProgressBytes) return true;
  version_count_ = sent;
  return false;
}

void HttpSession::note_progress() {
  if (is_trickle()) return;
  last_body_ms_ = static_cast<uint32_t>(services_.worker().now_ms());
  body_in_flight_ = true;
}

void HttpSession::begin_to_wait() { waits_since32_ms_ = static_cast<uint32_t>(services_.worker().now_ms()); }

uint64_t HttpSession::since(uint32_t modulo) const {
  const uint64_t now = services_.worker().now_ms();
  return now - (static_cast<uint32_t>(now) - modulo);
}

uint64_t HttpSession::last_progress_ms() const {
  if (has_queued()) return last_sent_ms();
  return since(last_body_ms_);
}

void HttpSession::on_sent(Transport& transport) {
  if (body_in_flight_) {
    last_body_ms_ = static_cast<uint32_t>(services_.worker().now_ms());
    body_in_flight_ = has_queued();
  }
  HttpConnection::on_sent(transport);
}

void HttpSession::on_data(Transport& transport, Buffer&& data) {
  if (moving_) [[unlikely]]
    return moving_->late.append(std::move(data));
  acceptor_->counters().bytes_in.add(data.size());
  unpack_codec();
  if (!has_codec() && !ending()) {
    if (beginning_) {
      if (beginning_->first.empty()) begin_to_wait();
      beginning_->first.append(std::move(data));
      return inspect_first_bytes();
    }
    make_http1();
  }
  HttpConnection::on_data(transport, std::move(data));
}

// Arms the timer again, so that the connection is parked and frees the chunk of a partial record.
void HttpSession::on_part(Transport&) {
  if (std::exchange(quiet_, false) && !ending()) arm_timer(services_.worker().now_ms() + kQuietMs);
}

void HttpSession::on_end(Transport& transport, bool truncated) {
  stay();
  if (truncated) acceptor_->counters().tls_truncated.add();
  if (!has_codec()) count_end(SessionEnd::kFinished);
  if (!defer_end(truncated ? PeerEnd::kTruncated : PeerEnd::kOrderly)) HttpConnection::on_end(transport, truncated);
}

void HttpSession::on_error(Transport& transport, int error) {
  stay();
  count_end(SessionEnd::kClientError);
  if (!defer_end(PeerEnd::kError)) HttpConnection::on_error(transport, error);
}

void HttpSession::on_record_error(Transport& transport, std::string_view error) {
  stay();
  std::array<char, ClientIp::kTextBytes> room;
  const config::Listener& config = *acceptor_->listener().config;
  log_failure(services_.worker(), config, client_ip_.text(room), config.alts.has_value(), "it", error);
  count_end(SessionEnd::kTlsError);
  HttpConnection::on_record_error(transport, error);
}

void HttpSession::on_codec_done() {
  stay();
  count_end(SessionEnd::kFinished);
  log_failure_of_codec();
  if (abandoned_) return reset();
  if (!codec_->output_cut()) return linger(/*cut=*/false);
  codec_->cut_shows() ? linger(/*cut=*/true) : cut_off();
}

void HttpSession::on_flushed(size_t bytes) { acceptor_->counters().bytes_out.add(bytes); }

void HttpSession::on_pumped() {
  if (ending()) return;
  if (acceptor_->worker().in_reserve()) [[unlikely]]
    acceptor_->review_memory();
  const bool mid_head = codec_->mid_head();
  const bool busy = codec_->streams() > 0;
  // The time of a head also runs while streams are open. The idle time begins at the end of the last stream.
  if (mid_head != mid_head_ || (!mid_head && (busy || busy_))) begin_to_wait();
  mid_head_ = mid_head;
  const bool became_idle = busy_ && !busy;
  busy_ = busy;
  // Between two requests, however soon the next one comes.
  if (acceptor_->moving_out() && acceptor_->departures().has_room() && move_out()) [[unlikely]]
    return;
  if (became_idle && !mid_head && services_.overload().reduces() && http2() && !draining_) [[unlikely]] {
    services_.overload().count(OverloadAction::kGoaway);
    return drain();
  }
  if (!std::exchange(quiet_, false)) return;
  arm_timer(services_.worker().now_ms() + kQuietMs);
}

// No connection may take more than a share of what is left of the worker's chunk budget, so that many slow clients
// together leave something for the others.
size_t HttpSession::send_mark() const {
  const size_t mark = acceptor_->worker().share(listener_->config->buffer_high.bytes);
  return listener_->keeps_bodies ? std::min(mark, BodyBuffer::share(acceptor_->worker())) : mark;
}

size_t HttpSession::receive_credit(Transport&) { return send_mark(); }

bool HttpSession::may_read_pipelined() { return services_.pump().head_budget().take(kPipelinedBytes); }

// ---- Time ----

uint64_t HttpSession::idle_timeout_ms() const {
  return services_.overload().reduced_ms(milliseconds(listener_->config->idle_timeout));
}

bool HttpSession::end_if_idle() {
  if (!services_.overload().reduces() || moving_ || draining_ || mid_head_) return false;
  const bool silent = beginning_ && !beginning_->setup && beginning_->first.empty();
  const bool waits = beginning_ ? silent : !codec_ || (codec_->streams() == 0 && !codec_->mid_head());
  if (!waits || transport_.queued() > 0 || services_.worker().now_ms() < waits_since_ms() + idle_timeout_ms()) {
    return false;
  }
  services_.overload().count(OverloadAction::kReduceTimeouts);
  on_timer();
  return true;
}

void HttpSession::on_timer() {
  if (lingering()) return linger_timeout();
  if (moving_) return stay();
  if (held_at_ != 0) [[unlikely]]
    release_requests();
  const config::Http& config = *listener_->config;
  const uint64_t now = services_.worker().now_ms();
  if (beginning_ || (version_ == Version::kHttp2 && codec_ && !static_cast<Http2Codec&>(*codec_).greeted())) {
    const bool silent = beginning_ && beginning_->first.empty();
    if (draining_ && silent && !awaits_first_request()) {
      count_end(SessionEnd::kFinished);
      return close();
    }
    const uint64_t limit = silent        ? idle_timeout_ms()
                           : !beginning_ ? milliseconds(config.http2.preface_timeout)
                                         : milliseconds(config.header_timeout);
    if (limit == 0 || now < waits_since_ms() + limit) return arm_timer(now + kQuietMs);
    if (!silent) listener_->counters.header_timeouts.add();
    count_end(SessionEnd::kIdleTimeout);
    return reset();
  }
  // The codec may have received the rest of the head in this batch, before mid_head_ was updated.
  if (mid_head_ && codec_ && codec_->mid_head() && now >= waits_since_ms() + milliseconds(config.header_timeout)) {
    return head_timed_out();
  }
  const bool queued = transport_.queued() > 0 || (codec_ && codec_->has_output());
  if (queued) {
    check_progress();
    const auto stuck_for = [&](config::Duration limit) {
      return limit.count() > 0 && now >= last_sent_ms() + milliseconds(limit);
    };
    if (stuck_for(config.send_timeout) || (stuck_for(config.stuck_timeout) && services_.worker().should_shed_load())) {
      count_end(SessionEnd::kStuck);
      return reset();
    }
    return arm_timer(now + kQuietMs);
  }
  if (draining_ && codec_) codec_->drain();  // The second step of an HTTP/2 drain.
  const uint64_t age = milliseconds(config.max_connection_age);
  if (age > 0 && !draining_ && now >= started_ms_ + age) drain();
  if (has_codec() && (codec_->has_output() || codec_->status() != HttpCodec::Status::kOpen)) {
    arm_timer(now + kQuietMs);
    return wake();
  }
  const bool without_request = (!codec_ || codec_->streams() == 0) && config.idle_timeout.count() > 0;
  const uint64_t idle_due = waits_since_ms() + idle_timeout_ms();
  // Checked before activity: frames without a request, such as PING, do not postpone idle_timeout.
  const bool idle_over = without_request && !mid_head_ && !(codec_ && codec_->mid_head()) && now >= idle_due;
  if (!idle_over && now < last_active_ms() + kQuietMs) return arm_timer(last_active_ms() + kQuietMs);
  if (!std::exchange(quiet_, true)) {
    if (!transport_.park()) {
      count_end(SessionEnd::kClientError);
      return reset();
    }
    if (client_has_left()) {
      count_end(SessionEnd::kClientLeft);
      return reset();
    }
    if (can_settle()) return begin_settling();
    if (codec_) park_codec();
  }
  uint64_t due = UINT64_MAX;
  if (mid_head_) due = waits_since_ms() + milliseconds(config.header_timeout);
  if (draining_) due = now + kQuietMs;
  if (age > 0 && !draining_) due = std::min(due, started_ms_ + age);
  if (idle_over) {
    count_end(SessionEnd::kIdleTimeout);
    unpack_codec();
    if (!codec_) return linger(/*cut=*/false);
    codec_->drain();
    codec_->drain();
    return wake();
  }
  if (without_request) due = std::min(due, std::max(idle_due, now + kQuietMs));
  if (due != UINT64_MAX) arm_timer(due);
}

// A client that has half-closed may still wait for its response, but nearly always it is gone. Other proxies assume so
// at once.
bool HttpSession::client_has_left() const {
  return listener_->config->http1.half_close == config::HalfClose::kClose && transport_.ended() && codec_ &&
         codec_->streams() > 0 && version_ == Version::kHttp1 && !static_cast<const Http1Server&>(*codec_).in_tunnel();
}

// Parks the codec. An idle one is freed: the state of HTTP/1.1 is the count of earlier requests, that of HTTP/2 is
// packed.
void HttpSession::park_codec() {
  if (version_ == Version::kHttp1) {
    const auto& http1 = static_cast<const Http1Server&>(*codec_);
    if (http1.idle() && http1.status() == HttpCodec::Status::kOpen && !draining_) {
      version_count_ = http1.requests();
      return codec_.reset();
    }
  }
  if (version_ == Version::kHttp2 && !draining_ && !moving_) {
    auto& http2 = static_cast<Http2Codec&>(*codec_);
    if (http2.can_pack()) {
      idle_http2_ = http2.pack();
      return codec_.reset();
    }
  }
  codec_->park();
}

void HttpSession::unpack_codec() {
  if (!idle_http2_ || ending()) return;
  codec_ = make_codec_in_chunk<Http2Codec>(services_.worker().pool(), codec_settings_->http2_shared, this, idle_http2_);
  codec_->set_now(services_.worker().now_ms());
  idle_http2_ = {};
}

void HttpSession::head_timed_out() {
  listener_->counters.header_timeouts.add();
  count_end(SessionEnd::kIdleTimeout);
  if (version_ == Version::kHttp2) {
    if (codec_->status() == HttpCodec::Status::kFailed) return reset();  // The client did not take the GOAWAY either.
    static_cast<Http2Codec&>(*codec_).give_up("a header block was not complete within header_timeout");
    arm_timer(services_.worker().now_ms() + kQuietMs);
    return wake();
  }
  // The response was sent. Only the end of the request body is missing.
  if (codec_->streams() > 0) return linger(/*cut=*/false);
  Buffer response;
  {
    http1::Writer writer(response, services_.worker().pool(), 160);
    writer.text("HTTP/1.1 408 Request Timeout\r\nconnection: close\r\n");
    writer.field("date", http_date());
    writer.text("content-length: 0\r\n\r\n");
  }
  transport_.send(std::move(response));
  log_refused({.rule = "", .status = 408}, "header_timeout");
  linger(/*cut=*/false);
}

// ---- The end ----

void HttpSession::drain() {
  stay();
  if (std::exchange(draining_, true) || ending()) return;
  if (beginning_ && beginning_->setup) return;  // The first request still gets its response.
  if (awaits_first_request()) {                 // Until the timer looks again.
    if (codec_) static_cast<Http1Server&>(*codec_).end_after_request();
    return;
  }
  unpack_codec();
  if (!has_codec()) {
    if (beginning_ && !beginning_->first.empty()) return;
    count_end(SessionEnd::kFinished);
    return close();
  }
  codec_->drain();
  wake();
  arm_timer(services_.worker().now_ms() + kQuietMs);
}

// A client that has just connected is about to send its request. HTTP/2 has a GOAWAY for that case.
bool HttpSession::awaits_first_request() const {
  if (version_ == Version::kHttp2 || services_.worker().now_ms() >= started_ms_ + kFirstRequestMs) return false;
  return beginning_ || (codec_ && static_cast<const Http1Server&>(*codec_).requests() == 0);
}

void HttpSession::move_to(ClientAcceptor& to, HttpListener& listener) {
  if (ending() || (beginning_ && beginning_->setup)) return;
  std::exchange(acceptor_, &to)->moved(*this, to);
  listener_ = &listener;
}

void HttpSession::follow_configuration() {
  if (acceptor_->successor()) [[unlikely]]
    acceptor_->move(*this);
}

SessionKind HttpSession::kind() const {
  if (http2()) return SessionKind::kHttp2;
  const bool tunnel = version_ == Version::kHttp1 && codec_ && static_cast<const Http1Server&>(*codec_).in_tunnel();
  return tunnel ? SessionKind::kTunnel : SessionKind::kHttp1;
}

bool HttpSession::shut_down() {
  stay();
  const bool was_open = !ending();
  shutting_down_ = true;
  count_end(SessionEnd::kShutdown);
  reset();
  return was_open;
}

void HttpSession::count_end(SessionEnd end) {
  if (!std::exchange(end_counted_, true)) acceptor_->counters().ended[static_cast<size_t>(end)].add();
}

void HttpSession::on_gone() {
  stay();
  count_end(SessionEnd::kFinished);
  services_.worker().defer([](void* self) { delete static_cast<HttpSession*>(self); }, this);
}

}  // namespace sluice
