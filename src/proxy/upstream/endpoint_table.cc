#include "proxy/upstream/endpoint_table.h"

#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "sluice/internal/check.h"

namespace sluice {

namespace {

// For each address of a name: one slot in use, and one that connections may still be leaving.
constexpr size_t kSlotsPerAddress = 2;

size_t slots_of(const config::Upstream& upstream) {
  size_t count = 0;
  for (const config::Endpoint& endpoint : upstream.endpoints) {
    count += endpoint.is_resolved() ? kSlotsPerAddress * upstream.resolve.max_addresses : 1;
  }
  return count;
}

}  // namespace

EndpointTable::EndpointTable(config::Snapshot<config::Upstream> upstream, size_t added_slots)
    : config_(std::move(upstream)),
      size_(slots_of(*config_) + added_slots),
      fixed_(0),
      first_added_(size_ - added_slots),
      slots_(std::make_unique<Slot[]>(size_)) {
  std::vector<uint32_t> names;
  for (uint32_t i = 0; i < config_->endpoints.size(); ++i) {
    const config::Endpoint& endpoint = config_->endpoints[i];
    if (endpoint.is_resolved()) {
      names.push_back(i);
      continue;
    }
    slots_[fixed_].configured = i;
    occupy(slots_[fixed_++], {endpoint.address.address(), endpoint.weight, endpoint.priority}, 0);
  }
  // Interleaves the slots of the names, so that slots in use are among the first: TriedEndpoints remembers all of only
  // the first 64.
  for (size_t i = fixed_; i < first_added_; ++i) slots_[i].configured = names[(i - fixed_) % names.size()];
  for (size_t i = first_added_; i < size_; ++i) {
    slots_[i].configured = static_cast<uint32_t>(config_->endpoints.size() + i - first_added_);
  }
  renew_set();
}

EndpointTable::~EndpointTable() { SLUICE_CHECK(views_.empty()); }

bool EndpointTable::is_of(const Slot& slot, uint32_t configured) const {
  return slot.configured == configured && slot.state.present.load(std::memory_order_relaxed);
}

std::string EndpointTable::name(size_t slot) const {
  return is_resolved(slot) ? config_->endpoints[configured(slot)].text() : text(slot);
}

std::string EndpointTable::describe(size_t slot) const {
  return is_resolved(slot) ? absl::StrCat(name(slot), " (", text(slot), ")") : text(slot);
}

std::shared_ptr<const EndpointSet> EndpointTable::endpoint_set() const {
  const std::lock_guard lock(mutex_);
  return set_;
}

void EndpointTable::renew_set() {
  std::vector<EndpointSet::Endpoint> present;
  for (uint32_t i = 0; i < size_; ++i) {
    if (!state(i).present.load(std::memory_order_relaxed)) continue;
    present.push_back({.slot = i, .address = text(i), .weight = weight(i), .priority = priority(i)});
  }
  const uint64_t generation = generation_.load(std::memory_order_relaxed) + 1;
  auto set = std::make_shared<const EndpointSet>(*config_, size_, present, generation);
  {
    const std::lock_guard lock(mutex_);
    set_.swap(set);
  }
  generation_.store(generation, std::memory_order_release);
}

std::vector<ResolvedEndpoint> EndpointTable::present_of(uint32_t configured) const {
  std::vector<ResolvedEndpoint> present;
  for (size_t i = fixed_; i < size_; ++i) {
    if (is_of(slots_[i], configured)) present.push_back({slots_[i].address, configured_weight(i), priority(i)});
  }
  return present;
}

EndpointTable::Change EndpointTable::replace(uint32_t configured, std::span<const ResolvedEndpoint> now,
                                             uint64_t now_ms) {
  const std::lock_guard lock(change_mutex_);
  Change change;
  std::vector<const ResolvedEndpoint*> wanted;
  for (const ResolvedEndpoint& endpoint : now) {
    const bool twice = std::any_of(wanted.begin(), wanted.end(),
                                   [&](const ResolvedEndpoint* other) { return other->address == endpoint.address; });
    if (!twice) wanted.push_back(&endpoint);
  }
  // Present endpoints are kept first: if there is not room for all, the same ones stay.
  const uint64_t next = generation() + 1;
  for (size_t i = fixed_; i < size_; ++i) {
    Slot& slot = slots_[i];
    if (!is_of(slot, configured)) continue;
    const auto stays = std::find_if(wanted.begin(), wanted.end(),
                                    [&](const ResolvedEndpoint* each) { return each->address == slot.address; });
    if (stays == wanted.end()) {
      slot.left_at = next;
      slot.state.present.store(false, std::memory_order_relaxed);
      ++change.removed;
      continue;
    }
    if (adjust(slot, **stays)) ++change.adjusted;
    ++change.present;
    wanted.erase(stays);
  }
  for (const ResolvedEndpoint* const endpoint : wanted) {
    Slot* const slot =
        change.present < config_->resolve.max_addresses ? find_place(configured, endpoint->address) : nullptr;
    if (!slot) {
      ++change.left_out;
      continue;
    }
    occupy(*slot, *endpoint, now_ms);
    ++change.added;
    ++change.present;
  }
  if (change.any()) renew_set();
  return change;
}

bool EndpointTable::change(uint32_t slot, std::string_view address, EndpointMode mode, uint32_t weight,
                           uint64_t now_ms) {
  const std::lock_guard lock(change_mutex_);
  Slot& changed = slots_[slot];
  if (changed.text != address) return false;
  const bool was_enabled = changed.state.mode.exchange(mode, std::memory_order_relaxed) == EndpointMode::kEnabled;
  if (!was_enabled && changed.state.enabled()) changed.state.up_since_ms.store(now_ms, std::memory_order_relaxed);
  if (changed.changed_weight.exchange(weight, std::memory_order_relaxed) != weight) renew_set();
  note_health_change();
  return true;
}

// ---- Endpoints that operators add and remove ----

absl::StatusOr<uint32_t> EndpointTable::add(const ResolvedEndpoint& endpoint, uint64_t now_ms,
                                            absl::FunctionRef<void(uint32_t slot)> before_use) {
  const std::lock_guard lock(change_mutex_);
  size_t present = 0;
  for (size_t i = first_added_; i < size_; ++i) {
    if (slots_[i].state.present.load(std::memory_order_relaxed)) ++present;
  }
  if (present >= kMaxAdded || added_slots() == 0) {
    return absl::ResourceExhaustedError(absl::StrCat("upstream ", config_->name, " has ", present,
                                                     " added endpoints, and may have no more: put them into the "
                                                     "configuration and reload it, or remove one"));
  }
  Slot* const slot = find_place_for_added(endpoint.address);
  if (!slot) {
    return absl::ResourceExhaustedError(
        absl::StrCat("upstream ", config_->name,
                     " has no place for another endpoint until connections to endpoints "
                     "that were removed have ended: try again later"));
  }
  const auto index = static_cast<uint32_t>(slot - slots_.get());
  if (slot->address != endpoint.address) {
    slot->state.health.reset_counters();
    before_use(index);
  } else {
    slot->state.begin_anew(now_ms);
    slot->changed_weight.store(0, std::memory_order_relaxed);
  }
  occupy(*slot, endpoint, now_ms);
  renew_set();
  note_health_change();
  return index;
}

void EndpointTable::remove(uint32_t slot) {
  SLUICE_CHECK(!is_resolved(slot));
  const std::lock_guard lock(change_mutex_);
  if (!slots_[slot].state.present.exchange(false, std::memory_order_relaxed)) return;
  slots_[slot].left_at = generation() + 1;
  renew_set();
  note_health_change();
}

void EndpointTable::restore(uint32_t slot, uint64_t now_ms) {
  SLUICE_CHECK(slot < fixed_);
  const std::lock_guard lock(change_mutex_);
  Slot& restored = slots_[slot];
  if (restored.state.present.load(std::memory_order_relaxed)) return;
  restored.state.begin_anew(now_ms);
  restored.changed_weight.store(0, std::memory_order_relaxed);
  restored.state.present.store(true, std::memory_order_release);
  renew_set();
  note_health_change();
}

std::optional<uint32_t> EndpointTable::find_removed(std::string_view address) const {
  const std::lock_guard lock(change_mutex_);
  for (uint32_t i = 0; i < fixed_; ++i) {
    if (slots_[i].text == address && !slots_[i].state.present.load(std::memory_order_relaxed)) return i;
  }
  return std::nullopt;
}

std::vector<EndpointTable::Added> EndpointTable::added() const {
  const std::lock_guard lock(change_mutex_);
  std::vector<Added> all;
  for (size_t i = first_added_; i < size_; ++i) {
    const EndpointState& state = slots_[i].state;
    if (!state.present.load(std::memory_order_relaxed) && state.active.load(std::memory_order_relaxed) == 0) continue;
    all.push_back({static_cast<uint32_t>(i), slots_[i].text});
  }
  return all;
}

EndpointTable::Slot* EndpointTable::find_place_for_added(const config::Address& address) {
  Slot* free = nullptr;
  for (size_t i = first_added_; i < size_; ++i) {
    Slot& slot = slots_[i];
    if (slot.state.present.load(std::memory_order_relaxed)) continue;
    if (slot.address == address) return &slot;
    if (!free && is_free(slot)) free = &slot;
  }
  return free;
}

// ---- Another configuration ----

// While the old table is still in use, its resolver must not run.
void EndpointTable::continue_from(const EndpointTable& old) {
  for (uint32_t i = 0; i < config_->endpoints.size(); ++i) {
    if (!config_->endpoints[i].is_resolved()) continue;
    for (uint32_t was = 0; was < old.config_->endpoints.size(); ++was) {
      const bool same = old.config_->endpoints[was].text() == config_->endpoints[i].text();
      if (same && old.config_->endpoints[was].is_resolved()) (void)replace(i, old.present_of(was));
    }
  }
  continue_states(old);
}

void EndpointTable::continue_states(const EndpointTable& old) {
  // An operator may change the old endpoints meanwhile.
  const std::lock_guard lock(old.change_mutex_);
  const auto is_present = [](const Slot& slot) { return slot.state.present.load(std::memory_order_relaxed); };
  absl::flat_hash_map<std::string_view, const Slot*> known;
  for (size_t i = 0; i < old.size_; ++i) {
    if (is_present(old.slots_[i])) known.emplace(old.slots_[i].text, &old.slots_[i]);
  }
  for (size_t i = 0; i < size_; ++i) {
    if (!is_present(slots_[i])) continue;
    const auto same = known.find(slots_[i].text);
    if (same != known.end()) slots_[i].state.continue_from(same->second->state);
  }
  note_health_change();
}

bool EndpointTable::adjust(Slot& slot, const ResolvedEndpoint& to) {
  const bool weight = slot.weight.exchange(to.weight, std::memory_order_relaxed) != to.weight;
  const bool priority = slot.priority.exchange(to.priority, std::memory_order_relaxed) != to.priority;
  return weight || priority;
}

EndpointTable::Slot* EndpointTable::find_place(uint32_t configured, const config::Address& address) {
  Slot* free = nullptr;
  for (size_t i = fixed_; i < size_; ++i) {
    Slot& slot = slots_[i];
    if (slot.configured != configured || slot.state.present.load(std::memory_order_relaxed)) continue;
    if (slot.address == address) return &slot;
    if (!free && is_free(slot)) free = &slot;
  }
  return free;
}

// A slot is free if no view can start to use it and none does. The order of the checks matters: a view increments
// `holders` before it stores `seen_`. Until the set without the slot is published, a new view may still see the slot.
bool EndpointTable::is_free(const Slot& slot) const {
  if (slot.left_at > generation()) return false;
  {
    const std::lock_guard lock(mutex_);
    const bool seen = std::all_of(views_.begin(), views_.end(), [&](const EndpointView* view) {
      return view->seen_.load(std::memory_order_acquire) >= slot.left_at;
    });
    if (!seen) return false;
  }
  return slot.holders.load(std::memory_order_acquire) == 0;
}

void EndpointTable::occupy(Slot& slot, const ResolvedEndpoint& by, uint64_t now_ms) {
  if (slot.address != by.address) {
    slot.address = by.address;
    slot.text = by.address.text();
    slot.changed_weight.store(0, std::memory_order_relaxed);
    slot.state.begin_anew(now_ms);
  }
  adjust(slot, by);
  slot.state.present.store(true, std::memory_order_release);
}

EndpointView::EndpointView(EndpointTable& slots) : slots_(slots), uses_(slots.size()) {
  {
    const std::lock_guard lock(slots_.mutex_);
    slots_.views_.push_back(this);
  }
  follow();
}

EndpointView::~EndpointView() {
  for (uint32_t i = 0; i < uses_.size(); ++i) {
    if (uses_[i].entered) leave(i);
  }
  const std::lock_guard lock(slots_.mutex_);
  std::erase(slots_.views_, this);
}

// A change during this function is found by the next refresh().
void EndpointView::follow() {
  set_ = slots_.endpoint_set();
  const std::span<const uint32_t> present = set_->members();
  size_t next = 0;
  for (uint32_t i = 0; i < uses_.size(); ++i) {
    Use& use = uses_[i];
    use.present = next < present.size() && present[next] == i;
    if (use.present) {
      ++next;
      if (!std::exchange(use.entered, true)) slots_.slots_[i].holders.fetch_add(1, std::memory_order_relaxed);
    } else if (use.entered && use.count == 0) {
      leave(i);
    }
  }
  seen_.store(set_->generation(), std::memory_order_release);
}

// The release order makes all earlier reads of the slot happen before it is reused.
void EndpointView::leave(uint32_t slot) {
  uses_[slot].entered = false;
  slots_.slots_[slot].holders.fetch_sub(1, std::memory_order_release);
}

}  // namespace sluice
