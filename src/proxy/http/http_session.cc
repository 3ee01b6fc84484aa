#include "proxy/http/http_session.h"

#include <time.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <span>
#include <utility>

#include "buffer/copied.h"
#include "net/worker.h"
#include "proxy/http/exchange.h"
#include "proxy/http/http_listener.h"
#include "proxy/http/http_worker.h"
#include "proxy/http/waiting_body.h"
#include "proxy/http1/http1_server.h"
#include "proxy/http2/http2_connection.h"
#include "proxy/listener/client_acceptor.h"
#include "proxy/log/access_line.h"
#include "proxy/log/access_log.h"
#include "proxy/transport/handshakes.h"

namespace sluice {

namespace {

// A connection is looked after once when nothing has happened for so long; while something does, that often.
constexpr uint64_t kQuietMs = 1000;

// So long behind the first exchange of a connection that gives way, its others may.
constexpr uint32_t kGiveWayTogetherMs = 200;

// The share of the chunk budget's rest that one connection may queue, and what it may at least.
constexpr size_t kSendMarkShare = 32;
constexpr size_t kSendMarkMin = size_t{16} * 1024;

using config::milliseconds;

}  // namespace

void HttpSession::start(ClientAcceptor& acceptor, int fd) {
  auto* const session = new HttpSession(acceptor, fd);
  session->beginning_->setup->begin();
}

HttpSession::HttpSession(ClientAcceptor& acceptor, int fd)
    : HttpLink(*acceptor.http_worker()),
      acceptor_(acceptor),
      listener_(*acceptor.http()),
      started_ms_(acceptor.worker().now_ms()),
      waits_since_ms_(started_ms_),
      last_body_ms_(started_ms_) {
  transport_.adopt(fd, acceptor.listener().config.address.family());
  beginning_ = make_in_chunk<Beginning>(worker_.worker().pool());
  beginning_->setup = make_in_chunk<ClientSetup>(worker_.worker().pool(), acceptor, transport_, *this);
  acceptor_.joined(*this);
}

HttpSession::~HttpSession() { acceptor_.left(*this); }

// ---- Before the first request ----

void HttpSession::on_client_ready(Buffer&& first) {
  const ChunkPointer<ClientSetup> setup = std::move(beginning_->setup);
  transport_.set_owner(*this);
  client_ip_ = ClientIp(setup->source());
  source_place_ = setup->take_source_place();
  agreed_ = setup->take_agreement();
  waits_since_ms_ = worker_.worker().now_ms();
  Version version = Version::kUnknown;
  if (agreed_) {
    if (agreed_->alpn == "h2") version = Version::kHttp2;
    if (agreed_->alpn == "http/1.1") version = Version::kHttp1;
    if (agreed_->peer_names.empty() && !listener_.keeps_agreement) agreed_.reset();
  }
  transport_.start_reading();
  if (version != Version::kUnknown) {
    begin(version, std::move(first));
  } else {
    beginning_->first = std::move(first);
    arm_timer(waits_since_ms_ + kQuietMs);
    look_at_first_bytes();
  }
  transport_.release_arrived();
}

void HttpSession::on_client_refused(Refusal reason) {
  acceptor_.counters().refused[static_cast<size_t>(reason)].add();
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

// HTTP/2 with prior knowledge begins with its preface (RFC 9113 section 3.3), which is no request of HTTP/1.1.
void HttpSession::look_at_first_bytes() {
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
    first.settle(worker_.worker().pool());
  }
}

void HttpSession::begin(Version version, Buffer&& first) {
  version_ = version;
  waits_since_ms_ = worker_.worker().now_ms();
  if (version == Version::kHttp2) {
    listener_.counters.connections_h2.add();
    speak(make_codec<Http2Connection>(listener_.http2_shared, this));
  } else {
    listener_.counters.connections_h1.add();
    make_http1();
  }
  if (draining_) codec_->drain();
  arm_timer(waits_since_ms_ + kQuietMs);
  Buffer bytes = std::move(first);
  beginning_.reset();
  if (!bytes.empty()) HttpLink::on_data(transport_, std::move(bytes));
}

void HttpSession::make_http1() {
  ChunkPool& pool = worker_.worker().pool();
  speak(make_codec_in_chunk<Http1Server>(pool, pool, listener_.http1, listener_.http1_counters, *this, requests_));
}

// ---- Requests ----

StreamReceiver& HttpSession::on_stream(HttpStream& stream) { return Exchange::begin(*this, stream); }

void HttpSession::note_progress() {
  last_body_ms_ = worker_.worker().now_ms();
  body_under_way_ = true;
}

void HttpSession::on_sent(Transport& transport) {
  if (body_under_way_) {
    last_body_ms_ = worker_.worker().now_ms();
    body_under_way_ = has_queued();
  }
  HttpLink::on_sent(transport);
}

void HttpSession::on_data(Transport& transport, Buffer&& data) {
  acceptor_.counters().bytes_in.add(data.size());
  if (!has_codec() && !ending()) {
    if (beginning_) {
      if (beginning_->first.empty()) waits_since_ms_ = worker_.worker().now_ms();
      beginning_->first.append(std::move(data));
      return look_at_first_bytes();
    }
    make_http1();
  }
  HttpLink::on_data(transport, std::move(data));
}

// Else it would keep the chunk that the part of a record lies in.
void HttpSession::on_part(Transport&) {
  if (std::exchange(quiet_, false) && !ending()) arm_timer(worker_.worker().now_ms() + kQuietMs);
}

void HttpSession::on_end(Transport& transport, bool truncated) {
  if (truncated) acceptor_.counters().tls_truncated.add();
  if (!has_codec()) count_end(SessionEnd::kFinished);
  HttpLink::on_end(transport, truncated);
}

void HttpSession::on_error(Transport& transport, int error) {
  count_end(SessionEnd::kClientError);
  HttpLink::on_error(transport, error);
}

void HttpSession::on_record_error(Transport& transport, std::string_view error) {
  std::array<char, ClientIp::kTextBytes> room;
  const config::Listener& config = acceptor_.listener().config;
  log_failure(worker_.worker(), config, client_ip_.text(room), config.alts.has_value(), "it", error);
  count_end(SessionEnd::kTlsError);
  HttpLink::on_record_error(transport, error);
}

void HttpSession::on_codec_done() {
  count_end(SessionEnd::kFinished);
  if (version_ == Version::kHttp1) note_own_answer(static_cast<const Http1Server&>(*codec_).own_status());
  codec_->output_cut() ? reset() : linger(/*cut=*/false);
}

void HttpSession::on_flushed(size_t bytes) { acceptor_.counters().bytes_out.add(bytes); }

void HttpSession::on_pumped() {
  if (ending()) return;
  const bool mid_head = codec_->mid_head();
  const bool busy = codec_->streams() > 0;
  // The time of a head runs on beside open streams; that of a connection without any from the end of the last one.
  if (mid_head != mid_head_ || (!mid_head && (busy || busy_))) waits_since_ms_ = worker_.worker().now_ms();
  mid_head_ = mid_head;
  busy_ = busy;
  if (!std::exchange(quiet_, false)) return;
  arm_timer(worker_.worker().now_ms() + kQuietMs);
}

// No connection may take more than a share of what is left of the worker's chunk budget, so that many slow clients
// together leave something for the others.
size_t HttpSession::send_mark() const {
  const size_t share = acceptor_.worker().pool().headroom_bytes() / kSendMarkShare;
  const size_t mark = std::min<size_t>(listener_.config.buffer_high.bytes, std::max(share, kSendMarkMin));
  return listener_.keeps_bodies ? std::min(mark, WaitingBody::share(acceptor_.worker())) : mark;
}

size_t HttpSession::receive_credit(Transport&) { return send_mark(); }

// ---- Time ----

void HttpSession::on_timer() {
  if (lingering()) return linger_timeout();
  const config::Http& config = listener_.config;
  const uint64_t now = worker_.worker().now_ms();
  if (beginning_ || (version_ == Version::kHttp2 && !static_cast<Http2Connection&>(*codec_).greeted())) {
    const bool silent = beginning_ && beginning_->first.empty();
    const uint64_t limit = milliseconds(silent        ? config.idle_timeout
                                        : !beginning_ ? config.http2.preface_timeout
                                                      : config.header_timeout);
    if (limit == 0 || now < waits_since_ms_ + limit) return arm_timer(now + kQuietMs);
    if (!silent) listener_.counters.header_timeouts.add();
    count_end(SessionEnd::kIdleTimeout);
    return reset();
  }
  // What this batch has brought is in the codec already, but not yet in mid_head_.
  if (mid_head_ && codec_ && codec_->mid_head() && now >= waits_since_ms_ + milliseconds(config.header_timeout)) {
    return head_timed_out();
  }
  const bool queued = transport_.queued() > 0 || (codec_ && codec_->has_output());
  if (queued) {
    look_for_progress();
    const auto stuck_for = [&](config::Duration limit) {
      return limit.count() > 0 && now >= last_sent_ms() + milliseconds(limit);
    };
    if (stuck_for(config.send_timeout) || (stuck_for(config.stuck_timeout) && worker_.worker().should_give_way())) {
      count_end(SessionEnd::kStuck);
      return reset();
    }
    return arm_timer(now + kQuietMs);
  }
  if (draining_ && codec_) codec_->drain();  // The second step, of HTTP/2.
  const uint64_t age = milliseconds(config.max_connection_age);
  if (age > 0 && !draining_ && now >= started_ms_ + age) drain();
  if (has_codec() && codec_->has_output()) {
    arm_timer(now + kQuietMs);
    return wake();
  }
  if (now < last_active_ms() + kQuietMs) return arm_timer(last_active_ms() + kQuietMs);
  if (!std::exchange(quiet_, true)) {
    if (!transport_.park()) {
      count_end(SessionEnd::kClientError);
      return reset();
    }
    if (client_has_left()) {
      count_end(SessionEnd::kClientLeft);
      return reset();
    }
    if (codec_) park_codec();
  }
  uint64_t due = UINT64_MAX;
  if (mid_head_) due = waits_since_ms_ + milliseconds(config.header_timeout);
  if (draining_) due = now + kQuietMs;
  if (age > 0 && !draining_) due = std::min(due, started_ms_ + age);
  if ((!codec_ || codec_->streams() == 0) && config.idle_timeout.count() > 0) {
    const uint64_t idle_due = waits_since_ms_ + milliseconds(config.idle_timeout);
    if (now >= idle_due && !mid_head_) {
      count_end(SessionEnd::kIdleTimeout);
      if (!codec_) return linger(/*cut=*/false);
      codec_->drain();
      codec_->drain();
      return wake();
    }
    due = std::min(due, std::max(idle_due, now + kQuietMs));
  }
  if (due != UINT64_MAX) arm_timer(due);
}

bool HttpSession::should_give_way() {
  Worker& worker = worker_.worker();
  const auto now = static_cast<uint32_t>(worker.now_ms());
  if (now - gave_way_ms_ < kGiveWayTogetherMs) return worker.short_of_memory();
  if (!worker.should_give_way()) return false;
  gave_way_ms_ = now;
  return true;
}

// One that has said its end may still wait for its answer; but nearly always it is gone, as other proxies take it to be
// at once.
bool HttpSession::client_has_left() const {
  return transport_.ended() && codec_ && codec_->streams() > 0 && version_ == Version::kHttp1 &&
         !static_cast<const Http1Server&>(*codec_).in_tunnel();
}

// One of HTTP/1.1 that waits for a request is nothing but a count of those before.
void HttpSession::park_codec() {
  if (version_ == Version::kHttp1) {
    const auto& http1 = static_cast<const Http1Server&>(*codec_);
    if (http1.idle() && http1.status() == HttpConnection::Status::kOpen && !draining_) {
      requests_ = http1.requests();
      return codec_.reset();
    }
  }
  codec_->park();
}

// To a request that never became an exchange: nobody knows its method or path.
void HttpSession::note_own_answer(uint16_t status) {
  if (status == 0) return;
  listener_.counters.statuses[status / 100].add();
  if (!listener_.log) return;
  const std::span<char> room = listener_.log->begin();
  if (room.empty()) return;
  AccessRecord record;
  timespec now;
  clock_gettime(CLOCK_REALTIME_COARSE, &now);
  record.time_ms = int64_t{now.tv_sec} * 1000 + now.tv_nsec / 1'000'000;
  std::array<char, ClientIp::kTextBytes> ip;
  record.client = client_ip_.text(ip);
  record.listener = listener_.listener.name;
  record.protocol = "HTTP/1.1";
  if (agreed_) {
    record.tls = agreed_->version;
    record.cipher = agreed_->cipher;
  }
  record.status = status;
  record.reason = status == 408 ? "header_timeout" : "malformed";
  const HttpFacts facts{.client = &client_ip_, .agreed = agreed_.get(), .listener = record.listener};
  record.facts = &facts;
  listener_.log->commit(format_access_line(listener_.log_format, record, room));
}

void HttpSession::head_timed_out() {
  listener_.counters.header_timeouts.add();
  count_end(SessionEnd::kIdleTimeout);
  if (version_ == Version::kHttp2) return reset();
  if (codec_->streams() > 0) return linger(/*cut=*/false);  // It was answered; only its body's end did not come.
  constexpr std::string_view kResponse =
      "HTTP/1.1 408 Request Timeout\r\nconnection: close\r\ncontent-length: 0\r\n\r\n";
  Lease lease(ChunkRef::take(worker_.worker().pool().get_metadata(kResponse.size())), 0, 0);
  lease.grow_back(kResponse.size());
  counted_copy(lease.data(), reinterpret_cast<const std::byte*>(kResponse.data()), kResponse.size());
  Buffer response;
  response.append(std::move(lease));
  transport_.send(std::move(response));
  note_own_answer(408);
  linger(/*cut=*/false);
}

// ---- The end ----

void HttpSession::drain() {
  if (std::exchange(draining_, true) || ending()) return;
  if (beginning_ && beginning_->setup) return;  // A request that is under way is to be answered.
  if (!has_codec()) {
    if (beginning_ && !beginning_->first.empty()) return;
    count_end(SessionEnd::kFinished);
    return close();
  }
  codec_->drain();
  wake();
  arm_timer(worker_.worker().now_ms() + kQuietMs);
}

void HttpSession::shut_down() {
  shutting_down_ = true;
  count_end(SessionEnd::kShutdown);
  reset();
}

void HttpSession::count_end(SessionEnd end) {
  if (!std::exchange(end_counted_, true)) acceptor_.counters().ended[static_cast<size_t>(end)].add();
}

void HttpSession::on_gone() {
  count_end(SessionEnd::kFinished);
  worker_.worker().defer([](void* self) { delete static_cast<HttpSession*>(self); }, this);
}

}  // namespace sluice
