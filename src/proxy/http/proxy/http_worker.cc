#include "proxy/http/proxy/http_worker.h"

#include <algorithm>

#include "proxy/http/proxy/http_connection.h"
#include "proxy/http/proxy/http_upstream.h"
#include "sluice/internal/check.h"

namespace sluice {

HttpWorker::HttpWorker(const Context& context)
    : HttpServices(context.worker, context.handshakers, HttpConnection::pump),
      context_(context),
      random_(reinterpret_cast<uintptr_t>(this)) {
  for (size_t i = 0; i < context.balancers.size(); ++i) {
    upstreams_.push_back(std::make_unique<HttpUpstream>(*this, *context.balancers[i], context.tls_sessions[i],
                                                        context.counters.upstreams[i],
                                                        context.counters.http_upstreams[i]));
  }
}

HttpWorker::~HttpWorker() = default;

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
