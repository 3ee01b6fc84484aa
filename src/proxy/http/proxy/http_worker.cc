#include "proxy/http/proxy/http_worker.h"

#include <algorithm>
#include <new>
#include <utility>

#include "pool/check.h"
#include "proxy/http/proxy/exchange.h"
#include "proxy/http/proxy/http_upstream.h"

namespace sluice {

namespace {

// How many free exchanges are kept. The memory of a burst beyond that is freed.
constexpr size_t kFreeExchanges = 1024;

}  // namespace

HttpWorker::HttpWorker(const Context& context)
    : context_(context),
      random_(reinterpret_cast<uintptr_t>(this)),
      later_timer_([](void* self) { static_cast<HttpWorker*>(self)->schedule_pumping(); }, this) {
  for (size_t i = 0; i < context.balancers.size(); ++i) {
    upstreams_.push_back(std::make_unique<HttpUpstream>(*this, *context.balancers[i], context.tls_sessions[i],
                                                        context.counters.upstreams[i],
                                                        context.counters.http_upstreams[i]));
  }
}

HttpWorker::~HttpWorker() {
  SLUICE_CHECK(awake_.first == nullptr && later_.first == nullptr);
  for (void* memory : free_exchanges_) ::operator delete(memory);
}

void HttpWorker::ConnectionList::push(HttpConnection& connection) {
  connection.next_awake_ = nullptr;
  (last ? last->next_awake_ : first) = &connection;
  last = &connection;
}

HttpConnection* HttpWorker::ConnectionList::pop() {
  HttpConnection* const connection = first;
  if (connection) first = connection->next_awake_;
  if (!first) last = nullptr;
  return connection;
}

bool HttpWorker::ConnectionList::remove(HttpConnection& connection) {
  HttpConnection* previous = nullptr;
  for (HttpConnection* at = first; at != nullptr; previous = std::exchange(at, at->next_awake_)) {
    if (at != &connection) continue;
    (previous ? previous->next_awake_ : first) = connection.next_awake_;
    if (last == &connection) last = previous;
    return true;
  }
  return false;
}

void HttpWorker::wake(HttpConnection& connection) {
  awake_.push(connection);
  schedule_pumping();
}

void HttpWorker::schedule_pumping() {
  if (std::exchange(pumping_due_, true)) return;
  worker().before_sends([](void* self) { static_cast<HttpWorker*>(self)->pump_all(); }, this);
}

// A connection may wake another one, or itself. Those whose heads were held back go on first in, first out, as long as
// the turn's budget lasts, and at least one of them in each turn.
void HttpWorker::pump_all() {
  bool first = true;
  do {
    while (HttpConnection* const connection = awake_.pop()) connection->pump();
    HttpConnection* const resumed = first || head_budget_.left_bytes > 0 ? later_.pop() : nullptr;
    if (!resumed) break;
    first = false;
    resumed->resumed_ = true;
    resumed->pump();
  } while (true);
  pumping_due_ = false;
  head_budget_ = {};
  if (later_.first && !later_timer_.armed()) worker().timers().arm(later_timer_, worker().now_ms());
}

void HttpWorker::pump_later(HttpConnection& connection) {
  if (std::exchange(connection.awake_, true)) return;
  later_.push(connection);
}

// Ending a stream resets its upstream connection, which takes about as long as decoding 8 KiB of heads.
bool HttpWorker::may_end(uint32_t streams) {
  constexpr uint32_t kFewStreams = 4;
  constexpr size_t kStreamBytes = size_t{8} * 1024;
  if (streams <= kFewStreams) return true;
  return head_budget_.take(streams * kStreamBytes);
}

void HttpWorker::forget(HttpConnection& connection) { awake_.remove(connection) || later_.remove(connection); }

void* HttpWorker::take_exchange_memory() {
  if (free_exchanges_.empty()) return ::operator new(sizeof(Exchange));
  void* const memory = free_exchanges_.back();
  free_exchanges_.pop_back();
  return memory;
}

void HttpWorker::give_exchange_memory(void* memory) {
  if (free_exchanges_.size() >= kFreeExchanges) return ::operator delete(memory);
  free_exchanges_.push_back(memory);
}

void HttpWorker::follow_endpoints() {
  for (auto& upstream : upstreams_) upstream->follow_endpoints();
}

void HttpWorker::close() {
  for (auto& upstream : upstreams_) upstream->close();
}

void HttpWorker::shut_down() {
  for (auto& upstream : upstreams_) upstream->shut_down();
}

bool HttpWorker::idle() const {
  return std::all_of(upstreams_.begin(), upstreams_.end(), [](const auto& upstream) { return upstream->idle(); });
}

void HttpWorker::update_counters() {
  for (auto& upstream : upstreams_) upstream->update_counters();
}

}  // namespace sluice
