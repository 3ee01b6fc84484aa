#include "proxy/http/proxy/http_worker.h"

#include <algorithm>

#include "proxy/http/proxy/http_connection.h"
#include "proxy/http/proxy/http_upstream.h"
#include "sluice/internal/check.h"

namespace sluice {

HttpWorker::HttpWorker(const Context& context)
    : HttpServices(context.worker, context.handshakers, HttpConnection::pump, context.overload),
      context_(context),
      random_(reinterpret_cast<uintptr_t>(this)),
      refusals_(context.worker, context.overload) {}

HttpWorker::~HttpWorker() = default;

std::shared_ptr<HttpUpstream> HttpWorker::http_upstream(const std::shared_ptr<WorkerUpstream>& upstream) {
  std::shared_ptr<HttpUpstream>& made = upstreams_[upstream.get()];
  if (!made) made = std::make_shared<HttpUpstream>(*this, upstream);
  return made;
}

bool HttpWorker::close_unused() {
  bool left = false;
  absl::erase_if(upstreams_, [&left](const auto& each) {
    if (each.second.use_count() > 1) return false;
    each.second->close();
    if (each.second->idle()) return true;
    left = true;
    return false;
  });
  return !left;
}

void HttpWorker::follow_endpoints() {
  for (auto& [key, upstream] : upstreams_) upstream->follow_endpoints();
}

void HttpWorker::close() {
  for (auto& [key, upstream] : upstreams_) upstream->close();
}

void HttpWorker::shut_down() {
  for (auto& [key, upstream] : upstreams_) upstream->shut_down();
}

bool HttpWorker::idle() const {
  return tunnels_ == 0 &&
         std::all_of(upstreams_.begin(), upstreams_.end(), [](const auto& each) { return each.second->idle(); });
}

}  // namespace sluice
