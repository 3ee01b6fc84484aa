#include "proxy/upstream/endpoint_changes.h"

namespace sluice {

void EndpointChanges::make(uint32_t slot, const EndpointChange& change, uint64_t now_ms) {
  const std::string& address = slots_.text(slot);
  const std::lock_guard lock(mutex_);
  slots_.change(slot, address, change.mode, change.weight, now_ms);
  if (change.any()) {
    entries_.insert_or_assign(slot, Entry{address, change});
  } else {
    entries_.erase(slot);
  }
}

std::optional<EndpointChange> EndpointChanges::of(uint32_t slot) const {
  const std::lock_guard lock(mutex_);
  const auto found = entries_.find(slot);
  // A name's slot may have another address by now.
  if (found == entries_.end() || found->second.address != slots_.text(slot)) return std::nullopt;
  return found->second.change;
}

size_t EndpointChanges::end_unkept(uint64_t now_ms) {
  const std::lock_guard lock(mutex_);
  return std::erase_if(entries_, [&](const auto& each) {
    const auto& [slot, entry] = each;
    if (entry.change.keep) return false;
    slots_.change(slot, entry.address, EndpointMode::kEnabled, /*weight=*/0, now_ms);
    return true;
  });
}

void EndpointChanges::continue_from(const EndpointChanges& old) {
  const std::lock_guard lock(old.mutex_);
  for (const auto& [was, entry] : old.entries_) {
    if (!entry.change.keep) continue;
    for (const uint32_t slot : slots_.endpoint_set()->members()) {
      if (slots_.text(slot) == entry.address) make(slot, entry.change, /*now_ms=*/0);
    }
  }
}

}  // namespace sluice
