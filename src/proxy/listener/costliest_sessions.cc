#include "proxy/listener/costliest_sessions.h"

#include <algorithm>

namespace sluice {

void CostliestSessions::consider(Session& session, uint64_t now_ms) {
  const ConnectionFacts facts = session.facts();
  if (facts.memory_bytes < kLeastBytes || facts.state == ConnectionState::kClosing) return;
  const uint64_t age_ms = now_ms - std::min(facts.started_ms, now_ms) + 1;
  const auto used = static_cast<double>(session.transferred_bytes() + 1);
  const double cost = static_cast<double>(facts.memory_bytes) * static_cast<double>(age_ms) / used;
  size_t at = count_;
  while (at > 0 && found_[at - 1].cost < cost) --at;
  if (at == kMost) return;
  count_ = std::min(count_ + 1, kMost);
  for (size_t i = count_ - 1; i > at; --i) found_[i] = found_[i - 1];
  found_[at] = {.session = &session, .bytes = facts.memory_bytes, .cost = cost};
}

}  // namespace sluice
