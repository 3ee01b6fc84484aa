#include "proxy/http/proxy/mirrored_request.h"

#include <new>
#include <utility>

#include "net/worker.h"
#include "proxy/http/proxy/http_upstream.h"
#include "proxy/http/proxy/http_worker.h"
#include "proxy/http/proxy/upstream_connection.h"

namespace sluice {

namespace {

// How much body may wait in a copy before it is given up.
constexpr size_t kMaxWaitingBytes = size_t{256} * 1024;

bool copy_fields(ChunkPool& pool, const Fields& from, Fields& to) {
  for (const Fields::Field field : from) {
    if (!to.add(pool, field.name, field.value, field.traits)) return false;
  }
  return true;
}

bool copy_head(ChunkPool& pool, const Head& from, Head& to) {
  for (const Head::Part part : {Head::Part::kMethod, Head::Part::kScheme, Head::Part::kAuthority, Head::Part::kPath}) {
    if (!to.set(pool, part, from.part(part))) return false;
  }
  return copy_fields(pool, from.fields, to.fields);
}

}  // namespace

MirroredRequest* MirroredRequest::begin(HttpWorker& worker, HttpUpstream& to, const Head& request, bool end,
                                        MirroredRequest*& first) {
  static_assert(sizeof(MirroredRequest) <= ExchangeMemory::kBlockBytes);
  auto& copy = *new (worker.exchange_memory().take()) MirroredRequest(worker, to, first);
  to.counters().mirrored.add();
  if (!copy_head(worker.worker().pool(), request, copy.request_)) {
    copy.give_up();
    return nullptr;
  }
  if (end) copy.end_request();
  copy.call();
  return copy.place_ ? &copy : nullptr;
}

MirroredRequest::MirroredRequest(HttpWorker& worker, HttpUpstream& to, MirroredRequest*& first)
    : worker_(worker),
      place_(&first),
      next_(first),
      timer_([](void* self) { static_cast<MirroredRequest*>(self)->give_up(); }, this) {
  to_ = &to;
  if (next_) next_->place_ = &next_;
  first = this;
  // The copy has a timeout of its own: past the upstream's response_timeout it is of no use.
  const auto time_ms = config::milliseconds(to.config().response_timeout);
  worker_.worker().timers().arm(timer_, worker_.worker().now_ms() + time_ms);
}

// What follows it in the list stays reachable from it, for each().
void MirroredRequest::leave_list() {
  if (!place_) return;
  *place_ = next_;
  if (next_) next_->place_ = place_;
  place_ = nullptr;
}

void MirroredRequest::end_request() {
  request_ended_ = true;
  leave_list();
}

void MirroredRequest::send_body(Buffer&& body, bool end) {
  const size_t waiting = upstream_ ? upstream_->queued() : held_.size();
  if (waiting + body.size() > kMaxWaitingBytes) return give_up();
  if (end) end_request();
  if (!upstream_) return held_.append(std::move(body));
  upstream_->send_body(std::move(body), end);
  connection_->wake();
}

void MirroredRequest::send_trailers(const Fields& trailers) {
  if (!copy_fields(worker_.worker().pool(), trailers, held_trailers_)) return give_up();
  end_request();
  if (!upstream_) return;
  upstream_->send_trailers(held_trailers_);
  connection_->wake();
}

void MirroredRequest::on_upstream(UpstreamConnection& connection, HttpStream& stream) {
  take_upstream(connection, stream);
  const bool body_ends = request_ended_ && held_trailers_.empty();
  upstream_->send_head(request_, body_ends && held_.empty());
  if (!held_.empty()) upstream_->send_body(std::move(held_), body_ends);
  if (!held_trailers_.empty()) upstream_->send_trailers(held_trailers_);
}

void MirroredRequest::on_no_upstream(HttpEnd) {
  waiting_ = false;
  give_up();
}

// Its time does not count, as the body may have come after the request was sent.
void MirroredRequest::on_head(HttpStream&, Head&& head, bool end) {
  if (head.status >= 200) leave_place();
  if (end) finish();
}

void MirroredRequest::on_body(HttpStream&, Buffer&& body, bool end) {
  body.clear();
  if (end) finish();
}

void MirroredRequest::on_reset(HttpStream&, ResetReason) {
  to_->counters().mirrors_given_up.add();
  finish();
}

void MirroredRequest::give_up() {
  to_->counters().mirrors_given_up.add();
  stop_waiting();
  if (upstream_) upstream_->reset(ResetReason::kCancelled);
  finish();
}

void MirroredRequest::finish() {
  leave_upstream();
  leave_list();
  timer_.cancel();
  worker_.end_with_turn(*this);
}

}  // namespace sluice
