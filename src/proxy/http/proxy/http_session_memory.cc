// What a session may hold, and when it gives memory back.

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "net/worker.h"
#include "proxy/common/source_memory.h"
#include "proxy/config/model/units.h"
#include "proxy/http/proxy/http_listener.h"
#include "proxy/http/proxy/http_services.h"
#include "proxy/http/proxy/http_session.h"
#include "proxy/listener/client_acceptor.h"

namespace sluice {

namespace {

// For this long after a connection's first exchange was shed, its other exchanges may be shed too.
constexpr uint32_t kShedLoadTogetherMs = 200;

// What a connection may hold (HttpCodec::held_bytes) at most, however much memory is left: more than its windows and
// its largest heads allow in by default. And what it may hold at least while it need not give memory back.
constexpr size_t kMaxHeldBytes = size_t{16} << 20;
constexpr size_t kMinHeldBytes = size_t{256} << 10;

// While the reserve is in use, connections give memory back first if their source holds at least 1/kSourcePart of the
// budget in total. All others give memory back too when half of the reserve is used.
constexpr size_t kSourcePart = 16;

}  // namespace

size_t HttpSession::held_limit() const {
  const Worker& worker = acceptor_->worker();
  const size_t share = worker.share(kMaxHeldBytes);
  return worker.in_reserve() && must_give_back() ? share : std::max(share, kMinHeldBytes);
}

bool HttpSession::must_give_back() const {
  const ChunkPool& pool = acceptor_->worker().pool();
  if (pool.reserved_headroom_bytes() < pool.reserve_bytes() / 2) return true;
  Source source;
  if (!Source::from(client_ip_.bytes(), source)) return true;
  const SourceMemory* const memory = acceptor_->source_memory();
  return memory && memory->held(source) >= pool.budget_bytes() / kSourcePart;
}

bool HttpSession::admits(size_t held_bytes, size_t bytes) { return held_bytes + bytes <= held_limit(); }

// A connection that holds too much pauses only itself. Further input waits in the kernel.
bool HttpSession::may_read() {
  if (codec_->held_bytes() <= held_limit()) {
    paused_ms_ = 0;
    return true;
  }
  if (paused_ms_ == 0) {
    paused_ms_ = std::max<uint32_t>(static_cast<uint32_t>(services_.worker().now_ms()), 1);
    listener_->counters.memory_pauses.add();
    acceptor_->review_memory();
  }
  return false;
}

bool HttpSession::review_memory() {
  if (ending() || end_if_idle() || !codec_) return false;
  if (Source source; Source::from(client_ip_.bytes(), source)) {
    acceptor_->source_memory()->add(source, codec_->held_bytes() + transport_.queued());
  }
  const bool was_paused = paused_ms_ != 0;
  if (may_read()) {
    if (was_paused) wake();
    return false;
  }
  transport_.stop_reading();
  // While reading is paused, no completion would report that the client has gone.
  if (transport_.socket().peer_gone()) {
    stay();
    count_end(SessionEnd::kClientError);
    reset();
    return false;
  }
  const uint64_t limit_ms = config::milliseconds(listener_->config->stuck_timeout);
  const auto now = static_cast<uint32_t>(acceptor_->worker().now_ms());
  if (limit_ms > 0 && now - paused_ms_ >= limit_ms && acceptor_->worker().in_reserve() && acceptor_->may_shed()) {
    count_end(SessionEnd::kMemory);
    codec_->shed("the connection holds more than its share of memory, which is short");
    wake();
    return false;
  }
  return true;
}

// Requests that are in progress end with the connection.
bool HttpSession::close_for_memory() {
  if (ending()) return false;
  stay();
  closed_for_memory_ = true;
  count_end(SessionEnd::kOverload);
  reset();
  return true;
}

bool HttpSession::should_shed_load() {
  Worker& worker = services_.worker();
  const auto now = static_cast<uint32_t>(worker.now_ms());
  if (now - shed_load_ms_ < kShedLoadTogetherMs) return worker.short_of_memory();
  if (!worker.should_shed_load()) return false;
  shed_load_ms_ = now;
  return true;
}

}  // namespace sluice
