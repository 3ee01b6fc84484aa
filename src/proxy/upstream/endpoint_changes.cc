#include "proxy/upstream/endpoint_changes.h"

#include <memory>
#include <utility>

namespace sluice {

namespace {

void nothing_to_reset(uint32_t) {}

}  // namespace

void EndpointChanges::make(uint32_t slot, const EndpointChange& change, uint64_t now_ms) {
  const std::lock_guard lock(mutex_);
  const auto known = entries_.find(slot);
  // A reload may have removed it meanwhile.
  if (change.presence == EndpointPresence::kAdded && known == entries_.end()) return;
  const std::string address = slots_.text(slot);
  slots_.change(slot, address, change.mode, change.weight, now_ms);
  enter(slot,
        {.address = address, .change = change, .added = known == entries_.end() ? std::nullopt : known->second.added});
}

void EndpointChanges::enter(uint32_t slot, Entry entry) {
  if (entry.change.any()) {
    entries_.insert_or_assign(slot, std::move(entry));
  } else {
    entries_.erase(slot);
  }
}

absl::StatusOr<uint32_t> EndpointChanges::add(const ResolvedEndpoint& endpoint, EndpointChange change, uint64_t now_ms,
                                              absl::FunctionRef<void(uint32_t slot)> before_use) {
  const std::lock_guard lock(mutex_);
  Entry entry{.address = endpoint.address.text(), .change = std::move(change)};
  uint32_t slot = 0;
  if (const std::optional<uint32_t> removed = slots_.find_removed(entry.address)) {
    slot = *removed;
    entry.change.presence = EndpointPresence::kConfigured;
    slots_.restore(slot, now_ms);
  } else {
    const absl::StatusOr<uint32_t> added = slots_.add(endpoint, now_ms, before_use);
    if (!added.ok()) return added.status();
    slot = *added;
    entry.change.presence = EndpointPresence::kAdded;
    entry.added = endpoint;
  }
  slots_.change(slot, entry.address, entry.change.mode, entry.change.weight, now_ms);
  enter(slot, std::move(entry));
  return slot;
}

void EndpointChanges::remove(uint32_t slot, EndpointChange change) {
  const std::lock_guard lock(mutex_);
  slots_.remove(slot);
  if (slots_.is_added(slot)) return void(entries_.erase(slot));
  change.presence = EndpointPresence::kRemoved;
  enter(slot, {.address = slots_.text(slot), .change = std::move(change)});
}

std::optional<EndpointChange> EndpointChanges::of(uint32_t slot) const {
  const std::lock_guard lock(mutex_);
  const auto found = entries_.find(slot);
  // A name's slot may have another address by now.
  if (found == entries_.end() || found->second.address != slots_.text(slot)) return std::nullopt;
  return found->second.change;
}

std::optional<EndpointChange> EndpointChanges::removal_of(uint32_t configured) const {
  const std::lock_guard lock(mutex_);
  for (const auto& [slot, entry] : entries_) {
    const bool removed = entry.change.presence == EndpointPresence::kRemoved;
    if (removed && slots_.configured(slot) == configured) return entry.change;
  }
  return std::nullopt;
}

size_t EndpointChanges::end_unkept(uint64_t now_ms) {
  const std::lock_guard lock(mutex_);
  return std::erase_if(entries_, [&](const auto& each) {
    const auto& [slot, entry] = each;
    if (entry.change.keep) return false;
    if (entry.change.presence == EndpointPresence::kAdded) {
      slots_.remove(slot);
      return true;
    }
    if (entry.change.presence == EndpointPresence::kRemoved) slots_.restore(slot, now_ms);
    slots_.change(slot, entry.address, EndpointMode::kEnabled, /*weight=*/0, now_ms);
    return true;
  });
}

void EndpointChanges::continue_from(const EndpointChanges& old) {
  const std::lock_guard lock(old.mutex_);
  for (const auto& [was, entry] : old.entries_) {
    if (entry.change.keep) take_over(entry);
  }
}

// An endpoint that was added may be configured now.
void EndpointChanges::take_over(const Entry& entry) {
  EndpointChange change = entry.change;
  bool found = false;
  const std::shared_ptr<const EndpointSet> present = slots_.endpoint_set();  // Changes make others.
  for (const uint32_t slot : present->members()) {
    if (slots_.text(slot) != entry.address) continue;
    found = true;
    if (change.presence == EndpointPresence::kRemoved) {
      if (!slots_.is_resolved(slot)) remove(slot, change);
      continue;
    }
    change.presence = EndpointPresence::kConfigured;
    make(slot, change, /*now_ms=*/0);
  }
  if (!found && entry.added) (void)add(*entry.added, change, /*now_ms=*/0, nothing_to_reset);
}

}  // namespace sluice
