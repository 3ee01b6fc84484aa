#include "proxy/http/proxy/http_connection.h"

#include <linux/sockios.h>
#include <sys/ioctl.h>

#include <algorithm>
#include <utility>

#include "net/worker.h"
#include "proxy/http/proxy/http_worker.h"

namespace sluice {

namespace {

// How long a peer that is silent may take to close, once it was told that nothing follows; and one that goes on to send
// what nobody reads. As nginx's lingering_timeout and lingering_time, but shorter.
constexpr uint64_t kLingerMs = 2000;
constexpr uint64_t kLingerTotalMs = 20'000;

// How long a peer may take nothing of what is left for it: what config::Http::send_timeout is by default.
constexpr uint64_t kStuckMs = 30'000;

// How often it is looked whether the peer has acknowledged all that was sent.
constexpr uint64_t kCutOffLookMs = 20;

bool all_acknowledged(int fd) {
  int bytes = 0;
  return ioctl(fd, SIOCOUTQ, &bytes) != 0 || bytes == 0;
}

// What a receive may bring beyond what the codec wants just now.
constexpr size_t kCreditBytes = size_t{64} * 1024;

}  // namespace

Worker& HttpConnection::worker_of(HttpWorker& worker) { return worker.worker(); }

HttpConnection::~HttpConnection() {
  if (awake_) worker_.forget(*this);
}

void HttpConnection::arm_timer(uint64_t due_ms) { worker_.worker().timers().arm(timer_, due_ms); }

void HttpConnection::speak(CodecPointer codec) {
  codec_ = std::move(codec);
  codec_->set_now(worker_.worker().now_ms());
  last_active_ms_ = last_sent_ms_ = worker_.worker().now_ms();
  wake();
}

void HttpConnection::wake() {
  if (awake_) return;
  awake_ = true;
  worker_.wake(*this);
}

void HttpConnection::pump() {
  awake_ = false;
  if (!codec_ || !transport_.open()) return;
  if (!lingering_) {
    const size_t mark = send_mark();
    bool goes_on = std::exchange(resumed_, false) || !codec_->input_waits();
    for (;;) {
      if (goes_on) codec_->receive(Buffer());
      goes_on = !codec_->input_waits();
      if (!codec_->has_output() || transport_.queued() >= mark) break;
      if (transport_.queued() == 0) last_sent_ms_ = worker_.worker().now_ms();
      Buffer out;
      codec_->flush(out);
      if (out.empty()) continue;  // It only had something to tell.
      on_flushed(out.size());
      transport_.send(std::move(out));
    }
    if (codec_->input_waits()) worker_.pump_later(*this);
    codec_->wants_bytes() && may_read() ? transport_.start_reading() : transport_.stop_reading();
    if (!codec_->has_output()) {
      if (codec_->output_ended() && !transport_.write_shut()) transport_.shutdown_write();
      if (codec_->status() != HttpCodec::Status::kOpen && !std::exchange(told_done_, true)) on_codec_done();
    }
  }
  if (transport_.open()) on_pumped();
}

// ---- The transport ----

void HttpConnection::on_data(Transport&, Buffer&& data) {
  const uint64_t now = worker_.worker().now_ms();
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
  if (!codec_) return linger(/*cut=*/truncated);  // TLS: the peer's close_notify has one in return.
  codec_->receive_end(truncated ? HttpCodec::End::kCut : HttpCodec::End::kSaid);
  wake();
}

void HttpConnection::on_sent(Transport&) {
  last_active_ms_ = last_sent_ms_ = worker_.worker().now_ms();
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

// Streams are told at once: nothing more can come of them.
void HttpConnection::lose() {
  if (ending() || !codec_) return;
  told_done_ = true;
  codec_->receive_end(HttpCodec::End::kLost);
}

// How much a bulk receive may bring: the codec keeps what its streams cannot take.
size_t HttpConnection::receive_credit(Transport&) { return kCreditBytes; }

// ---- The end ----

void HttpConnection::linger(bool cut) {
  if (ending()) return;
  if (codec_ && codec_->streams() > 0) lose();  // Nothing more will come of them.
  lingering_ = true;
  linger_until_ms_ = worker_.worker().now_ms() + kLingerTotalMs;
  transport_.shutdown_write(cut);
  if (transport_.write_shut() && transport_.ended()) return close();
  transport_.start_reading();
  arm_timer(worker_.worker().now_ms() + kLingerMs);
}

void HttpConnection::cut_off() {
  if (ending()) return;
  if (codec_ && codec_->streams() > 0) lose();
  lingering_ = cuts_off_ = true;
  linger_until_ms_ = worker_.worker().now_ms() + kLingerTotalMs;
  if (transport_.queued() == 0 && all_acknowledged(transport_.socket().fd())) return reset();
  transport_.start_reading();
  arm_timer(worker_.worker().now_ms() + kCutOffLookMs);
}

// Not while the peer takes what is for it, or has not seen yet that it is to stop.
void HttpConnection::linger_timeout() {
  const uint64_t now = worker_.worker().now_ms();
  if (transport_.queued() > 0) {
    look_for_progress();
    if (now >= last_sent_ms_ + kStuckMs) return reset();
    linger_until_ms_ = now + kLingerTotalMs;
    return arm_timer(now + (cuts_off_ ? kCutOffLookMs : kLingerMs));
  }
  if (cuts_off_) {
    look_for_progress();
    const bool over = now >= last_sent_ms_ + kStuckMs || all_acknowledged(transport_.socket().fd());
    return over ? reset() : arm_timer(now + kCutOffLookMs);
  }
  if (now < last_active_ms_ + kLingerMs && now < linger_until_ms_) return arm_timer(last_active_ms_ + kLingerMs);
  close();
}

// A send that is under way shows its progress only here.
void HttpConnection::look_for_progress() {
  const uint64_t acknowledged = transport_.socket().acknowledged();
  if (std::exchange(acknowledged_, acknowledged) != acknowledged) last_sent_ms_ = worker_.worker().now_ms();
}

void HttpConnection::reset() {
  lose();
  if (std::exchange(closing_, true)) return;
  timer_.cancel();
  transport_.abort();
}

void HttpConnection::close() {
  if (std::exchange(closing_, true)) return;
  timer_.cancel();
  transport_.close();
}

void HttpConnection::on_closed(Transport&) {
  timer_.cancel();
  on_gone();
}

}  // namespace sluice
