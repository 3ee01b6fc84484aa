#include "proxy/http/proxy/upstream_pool.h"

#include <algorithm>
#include <utility>

#include "proxy/http/proxy/http_services.h"
#include "sluice/internal/check.h"

namespace sluice {

namespace {

// For responses of far endpoints: 200 Mbit/s over 20 ms. It is that of all streams of a connection together, so slow
// clients can make the connection hold little more than without it.
constexpr uint32_t kWindowGrowthBytes = 512 * 1024;

}  // namespace

UpstreamPool::UpstreamPool(HttpServices& services, std::shared_ptr<WorkerUpstream> upstream)
    : services_(services),
      upstream_(std::move(upstream)),
      balancer_(upstream_->balancer),
      counters_(*upstream_->http_counters),
      latencies_(*upstream_->latencies),
      http2_shared_{services.worker().pool(), http2_, counters_.codecs.http2},
      endpoints_(upstream_->state->size()) {
  http1_.limits = Http1Limits::of_responses();
  const config::Pool& pool = config().pool;
  http1_.limits.requests = pool.max_requests == 0 ? UINT32_MAX : pool.max_requests;
  http2_.streams = pool.max_streams;
  http2_.window_growth_bytes = kWindowGrowthBytes;
  // Data that slow clients leave unread must not use up the window that all streams share.
  http2_.connection_window_bytes = static_cast<uint32_t>(std::clamp<uint64_t>(
      uint64_t{pool.max_streams} * http2_.stream_window_bytes + kWindowGrowthBytes, 1024 * 1024, INT32_MAX));
  http2_.header_list_bytes = 64 * 1024;
  http2_.header_fields = 200;
  http2_.header_fields_hard = 256;
  http2_.requests = pool.max_requests;
  // Endpoints belong to the operator: what would be a flood from any other peer may be normal for them.
  http2_.pings_burst = http2_.pings_per_10s = 10'000;
  http2_.settings_burst = http2_.settings_per_10s = 1000;
  http2_.replies_burst = http2_.replies_per_10s = 20'000;
  http2_.resets = http2_.resets_saved = 100'000;
  // Data of canceled streams still arrives, up to one window for each stream, in frames of any size.
  http2_.frames_on_closed = http2_.frames_on_closed_per_stream = http2_.stream_window_bytes;
  http2_.queued_control_frames = std::max(http2_.queued_control_frames, 8 * pool.max_streams);
}

UpstreamPool::~UpstreamPool() { SLUICE_CHECK(all_.empty() && idle()); }

}  // namespace sluice
