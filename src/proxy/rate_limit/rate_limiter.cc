#include "proxy/rate_limit/rate_limiter.h"

#include <algorithm>

#include "sluice/internal/check.h"

namespace sluice {

std::shared_ptr<RateTable> RateLimiter::table_of(const config::RateLimit& limit) {
  const uint64_t period_ns = config::milliseconds(limit.rate.period()) * 1'000'000, burst = limit.effective_burst();
  const Gcra gcra = limit.rate.is_bytes() ? Gcra::of_bytes(limit.rate.events(), period_ns, burst)
                                          : Gcra(limit.rate.events(), period_ns, static_cast<uint32_t>(burst),
                                                 config::milliseconds(limit.delay) * 1'000'000);
  return std::make_shared<RateTable>(gcra, limit.entries);
}

RateDecision WorkerRateLimit::check(uint64_t key_hash, uint64_t now_us) const {
  const RateVerdict verdict = limiter->table().check(key_hash, now_us * 1000);
  if (verdict.evicted) counters->evictions.add();
  if (verdict.admitted && verdict.wait_ns == 0) return {};
  if (limiter->config().dry_run) {
    (verdict.admitted ? counters->dry_run_delayed : counters->dry_run).add();
    return {};
  }
  (verdict.admitted ? counters->delayed : counters->limited).add();
  return {.refused = !verdict.admitted, .wait_ns = std::max<uint64_t>(verdict.wait_ns, 1)};
}

uint64_t WorkerRateLimit::reserve(uint64_t key_hash, size_t bytes, uint64_t now_us) const {
  const RateVerdict verdict = limiter->table().reserve(key_hash, bytes, now_us * 1000);
  counters->bytes.add(bytes);
  if (verdict.evicted) counters->evictions.add();
  if (verdict.wait_ns == 0) return 0;
  if (limiter->config().dry_run) {
    counters->dry_run_delayed_bytes.add(bytes);
    return 0;
  }
  counters->delayed_bytes.add(bytes);
  counters->pauses.add();
  return verdict.wait_ns;
}

void WorkerRateLimit::give_back(uint64_t key_hash, size_t bytes, uint64_t now_us) const {
  limiter->table().give_back(key_hash, bytes, now_us * 1000);
}

WorkerRateLimits rate_limits_named(const WorkerRateLimits& all, const std::vector<std::string>& names) {
  WorkerRateLimits found;
  for (const std::string& name : names) {
    const auto at = std::find_if(all.begin(), all.end(),
                                 [&](const WorkerRateLimit& each) { return each.limiter->config().name == name; });
    SLUICE_CHECK(at != all.end());
    found.push_back(*at);
  }
  return found;
}

}  // namespace sluice
