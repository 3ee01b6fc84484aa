#include "proxy/http/proxy/http_connection.h"

#include <linux/sockios.h>
#include <sys/ioctl.h>

#include <algorithm>
#include <utility>

#include "net/worker.h"
#include "proxy/http/proxy/http_services.h"

namespace sluice {

namespace {

// How long a silent peer may take to close after our end of stream, and how long a peer may keep sending data that is
// dropped. Like nginx's lingering_timeout and lingering_time, but shorter.
constexpr uint64_t kLingerMs = 2000;
constexpr uint64_t kLingerTotalMs = 20'000;

// How long a peer may take nothing of the remaining output. The default of config::Http::send_timeout.
constexpr uint64_t kStuckMs = 30'000;

// How often to check whether the peer has acknowledged everything.
constexpr uint64_t kCutOffPollMs = 20;

bool all_acknowledged(int fd) {
  int bytes = 0;
  return ioctl(fd, SIOCOUTQ, &bytes) != 0 || bytes == 0;
}

// How much a receive may bring beyond what the codec needs at the moment.
constexpr size_t kCreditBytes = size_t{64} * 1024;

}  // namespace

Worker& HttpConnection::worker_of(HttpServices& services) { return services.worker(); }

HttpConnection::~HttpConnection() { services_.pump().forget(*this); }

void HttpConnection::arm_timer(uint64_t due_ms) { services_.worker().timers().arm(timer_, due_ms); }

void HttpConnection::speak(CodecPointer codec) {
  codec_ = std::move(codec);
  codec_->set_now(services_.worker().now_ms());
  last_active_ms_ = last_sent_ms_ = services_.worker().now_ms();
  wake();
}

void HttpConnection::wake() { services_.pump().wake(*this); }

bool HttpConnection::pump() {
  awake_ = false;
  if (!codec_) {
    on_woken();
  } else if (transport_.open()) {
    // It has not been read while its input was held back, so nothing has reported that its client is gone. In a crowd
    // that connects and resets, those that are there would wait behind the requests of those that are not.
    if (resumed_ && codec_->input_waits() && transport_.gone()) {
      reset();
      return false;
    }
    deferred_end_ == PeerEnd::kNone ? pump_codec() : handle_deferred_end();
  }
  return true;
}

void HttpConnection::pump_codec() {
  if (!lingering_) {
    const size_t mark = send_mark();
    bool input_waits = !std::exchange(resumed_, false) && codec_->input_waits();
    for (;;) {
      if (!input_waits) {
        codec_->receive(Buffer());
        input_waits = codec_->input_waits();
      }
      if (!codec_->has_output() || transport_.queued() >= mark) break;
      if (transport_.queued() == 0) last_sent_ms_ = services_.worker().now_ms();
      Buffer out;
      codec_->flush(out);
      if (out.empty()) continue;  // The flush only notified streams.
      on_flushed(out.size());
      transport_.send(std::move(out));
    }
    if (input_waits) services_.pump().pump_later(*this);
    codec_->wants_bytes() && may_read() ? transport_.start_reading() : transport_.stop_reading();
    if (!codec_->has_output()) {
      if (codec_->output_ended() && !transport_.write_shut()) transport_.shutdown_write();
      if (codec_->status() != HttpCodec::Status::kOpen && !std::exchange(done_reported_, true)) on_codec_done();
    }
  }
  if (transport_.open()) on_pumped();
}

// ---- The transport ----

void HttpConnection::on_data(Transport&, Buffer&& data) {
  const uint64_t now = services_.worker().now_ms();
  last_active_ms_ = now;
  if (ending() || !codec_) return data.clear();
  codec_->set_now(now);
  codec_->receive(std::move(data));
  wake();
}

void HttpConnection::on_end(Transport&, bool truncated) {
  if (lingering_) {
    if (transport_.queued() == 0) finish_linger();
    return;
  }
  if (!codec_) return linger(/*cut=*/truncated);  // In TLS, the peer's close_notify calls for ours.
  codec_->receive_end(truncated ? HttpCodec::End::kCut : HttpCodec::End::kOrderly);
  wake();
}

bool HttpConnection::take_time(size_t bytes) {
  const bool has_time = services_.pump().head_budget().take(bytes);
  if (std::exchange(resumed_, false) || has_time) return true;
  services_.pump().pump_later(*this);
  return false;
}

bool HttpConnection::defer_end(PeerEnd how) {
  if (ending() || !codec_ || services_.pump().may_end(codec_->streams())) return false;
  deferred_end_ = how;
  services_.pump().pump_later(*this);
  return true;
}

void HttpConnection::handle_deferred_end() {
  if (!std::exchange(resumed_, false)) return services_.pump().pump_later(*this);
  (void)services_.pump().may_end(codec_->streams());  // It is accounted for all the same.
  const PeerEnd how = std::exchange(deferred_end_, PeerEnd::kNone);
  if (ending()) return;
  if (how == PeerEnd::kError) return reset();
  HttpConnection::on_end(transport_, how == PeerEnd::kTruncated);
}

void HttpConnection::on_sent(Transport&) {
  last_active_ms_ = last_sent_ms_ = services_.worker().now_ms();
  if (lingering_) {
    if (transport_.write_shut() && transport_.ended()) close();
    return;
  }
  if (codec_ && codec_->has_output() && transport_.queued() < send_mark()) wake();
}

void HttpConnection::on_error(Transport&, int) { reset(); }

void HttpConnection::on_record_error(Transport&, std::string_view) {
  lose();
  linger(/*cut=*/true);
}

// Notifies the streams at once: they will receive nothing more.
void HttpConnection::lose() {
  if (ending() || !codec_) return;
  done_reported_ = true;
  codec_->receive_end(HttpCodec::End::kLost);
}

// Limits a bulk receive: the codec keeps what its streams cannot take.
size_t HttpConnection::receive_credit(Transport&) { return kCreditBytes; }

// ---- The end ----

void HttpConnection::linger(bool cut) {
  if (ending()) return;
  if (codec_ && codec_->streams() > 0) lose();  // They will receive nothing more.
  lingering_ = true;
  linger_began_ms_ = static_cast<uint32_t>(services_.worker().now_ms());
  transport_.shutdown_write(cut);
  if (transport_.write_shut() && transport_.ended()) return close();
  transport_.start_reading();
  arm_timer(services_.worker().now_ms() + kLingerMs);
}

void HttpConnection::cut_off() {
  if (ending()) return;
  if (codec_ && codec_->streams() > 0) lose();
  lingering_ = cuts_off_ = true;
  linger_began_ms_ = static_cast<uint32_t>(services_.worker().now_ms());
  if (transport_.queued() == 0 && all_acknowledged(transport_.socket().fd())) return reset();
  transport_.start_reading();
  arm_timer(services_.worker().now_ms() + kCutOffPollMs);
}

// Closes, unless the peer still takes output, or has not yet seen that it should stop sending.
void HttpConnection::linger_timeout() {
  const uint64_t now = services_.worker().now_ms();
  if (transport_.queued() > 0) {
    check_progress();
    if (now >= last_sent_ms_ + kStuckMs) return reset();
    linger_began_ms_ = static_cast<uint32_t>(now);
    return arm_timer(now + (cuts_off_ ? kCutOffPollMs : kLingerMs));
  }
  if (cuts_off_) {
    check_progress();
    const bool over = now >= last_sent_ms_ + kStuckMs || all_acknowledged(transport_.socket().fd());
    return over ? reset() : arm_timer(now + kCutOffPollMs);
  }
  if (now < last_active_ms_ + kLingerMs && static_cast<uint32_t>(now) - linger_began_ms_ < kLingerTotalMs)
    return arm_timer(last_active_ms_ + kLingerMs);
  close();
}

// The progress of a pending send is visible only here.
void HttpConnection::check_progress() {
  const auto acknowledged = static_cast<uint32_t>(transport_.socket().acknowledged());
  if (std::exchange(acknowledged_, acknowledged) != acknowledged) last_sent_ms_ = services_.worker().now_ms();
}

void HttpConnection::reset() {
  lose();
  if (std::exchange(closing_, true)) return;
  timer_.cancel();
  transport_.abort();
  if (!transport_.busy()) end_unopened();
}

void HttpConnection::close() {
  if (std::exchange(closing_, true)) return;
  timer_.cancel();
  transport_.close();
  if (!transport_.busy()) end_unopened();
}

// The transport was never opened, so it calls nobody.
void HttpConnection::end_unopened() {
  services_.worker().defer([](void* self) { static_cast<HttpConnection*>(self)->on_gone(); }, this);
}

bool HttpConnection::empty_codec() {
  codec_->receive(Buffer());
  while (codec_->has_output()) {
    Buffer out;
    codec_->flush(out);
    on_flushed(out.size());
    transport_.send(std::move(out));
  }
  return !codec_->holds_tunneled_bytes();
}

void HttpConnection::leave() {
  closing_ = true;
  timer_.cancel();
}

void HttpConnection::on_closed(Transport&) {
  timer_.cancel();
  on_gone();
}

}  // namespace sluice
