#include "proxy/http/proxy/http_worker.h"

#include <algorithm>
#include <new>
#include <utility>

#include "pool/check.h"
#include "proxy/http/proxy/exchange.h"
#include "proxy/http/proxy/http_upstream.h"

namespace sluice {

namespace {

// So many are kept for later; a burst's memory goes back.
constexpr size_t kFreeExchanges = 1024;

}  // namespace

HttpWorker::HttpWorker(const Context& context)
    : context_(context),
      random_(reinterpret_cast<uintptr_t>(this)),
      later_timer_([](void* self) { static_cast<HttpWorker*>(self)->resume_all(); }, this) {
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

void HttpWorker::LinkList::push(HttpConnection& link) {
  link.next_awake_ = nullptr;
  (last ? last->next_awake_ : first) = &link;
  last = &link;
}

HttpConnection* HttpWorker::LinkList::pop() {
  HttpConnection* const link = first;
  if (link) first = link->next_awake_;
  if (!first) last = nullptr;
  return link;
}

bool HttpWorker::LinkList::remove(HttpConnection& link) {
  HttpConnection* previous = nullptr;
  for (HttpConnection* at = first; at != nullptr; previous = std::exchange(at, at->next_awake_)) {
    if (at != &link) continue;
    (previous ? previous->next_awake_ : first) = link.next_awake_;
    if (last == &link) last = previous;
    return true;
  }
  return false;
}

void HttpWorker::wake(HttpConnection& link) {
  awake_.push(link);
  if (std::exchange(pumping_due_, true)) return;
  worker().before_sends([](void* self) { static_cast<HttpWorker*>(self)->pump_all(); }, this);
}

// One may wake another, or itself again.
void HttpWorker::pump_all() {
  while (HttpConnection* const link = awake_.pop()) link->pump();
  pumping_due_ = false;
}

void HttpWorker::pump_later(HttpConnection& link) {
  if (std::exchange(link.awake_, true)) return;
  later_.push(link);
  if (!later_timer_.armed()) worker().timers().arm(later_timer_, worker().now_ms());
}

void HttpWorker::resume_all() {
  while (HttpConnection* const link = later_.pop()) {
    link->resumed_ = true;
    wake(*link);
  }
}

void HttpWorker::forget(HttpConnection& link) { awake_.remove(link) || later_.remove(link); }

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
