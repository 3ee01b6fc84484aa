// The slots of an upstream's endpoints: fixed in number, with contents that change.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "proxy/config/model/config.h"
#include "proxy/config/model/snapshot.h"
#include "proxy/upstream/endpoint_set.h"
#include "proxy/upstream/endpoint_state.h"
#include "sluice/internal/check.h"

namespace sluice {

/// An endpoint that a name resolves to.
struct ResolvedEndpoint {
  config::Address address;
  uint32_t weight = 1;
  uint32_t priority = 0;

  bool operator==(const ResolvedEndpoint&) const = default;
};

class EndpointView;

/// An upstream's endpoints as slots, numbered from 0. Each configured address has one slot permanently. The other slots
/// hold the results of name resolution: one thread, the resolver's, writes them, while any number of threads read, each
/// through an EndpointView.
///
/// The address in a slot never changes while a reader may use it. An endpoint that is removed leaves its slot, which
/// gets another address only after every view has seen the removal and no view holds the slot. Each name has twice
/// `resolve.max_addresses` slots, so that all addresses may change while the old ones are still in use.
///
/// Endpoints that operators add have slots of their own, which follow the same rules: add(), remove(). A configured
/// address that is removed keeps its slot, for restore().
///
/// An EndpointSet, remade with every change, lists the slots that are present.
class EndpointTable {
 public:
  /// How many endpoints may be added at a time. Each takes about 2 KiB with two workers, added or not.
  static constexpr size_t kMaxAdded = 8;
  /// Twice as many, so that all may be replaced while connections still use the old ones.
  static constexpr size_t kAddedSlots = 2 * kMaxAdded;
  /// How many slots for added endpoints each upstream of `config` has: none if nobody can add any.
  static size_t added_slots(const config::Config& config) { return config.admin ? kAddedSlots : 0; }

  explicit EndpointTable(config::Snapshot<config::Upstream> upstream, size_t added_slots = 0);
  ~EndpointTable();
  EndpointTable(const EndpointTable&) = delete;
  EndpointTable& operator=(const EndpointTable&) = delete;

  const config::Upstream& config() const { return *config_; }
  size_t size() const { return size_; }
  /// How many of the slots are for added endpoints.
  size_t added_slots() const { return size_ - first_added_; }
  /// The generation of endpoint_set(). It increases with every change of the present endpoints, their weights or
  /// priorities.
  uint64_t generation() const { return generation_.load(std::memory_order_acquire); }
  std::shared_ptr<const EndpointSet> endpoint_set() const;

  // Valid for a slot that is present in the caller's view or held through it.

  const config::Address& address(size_t slot) const { return slots_[slot].address; }
  /// The address as text.
  const std::string& text(size_t slot) const { return slots_[slot].text; }
  /// The endpoint as configured: a name or an address. An added endpoint is its address.
  std::string name(size_t slot) const;
  /// Describes an endpoint for messages: its address, and the name that resolved to it.
  std::string describe(size_t slot) const;

  // Valid for any slot.

  uint32_t weight(size_t slot) const {
    const uint32_t changed = slots_[slot].changed_weight.load(std::memory_order_relaxed);
    return changed != 0 ? changed : configured_weight(slot);
  }
  /// Without change().
  uint32_t configured_weight(size_t slot) const { return slots_[slot].weight.load(std::memory_order_relaxed); }
  uint32_t priority(size_t slot) const { return slots_[slot].priority.load(std::memory_order_relaxed); }
  /// The index in config::Upstream::endpoints of the configured endpoint that the slot belongs to. Each slot for added
  /// endpoints has an index of its own behind those.
  uint32_t configured(size_t slot) const { return slots_[slot].configured; }
  bool is_added(size_t slot) const { return slot >= first_added_; }
  /// Whether its address comes from a name.
  bool is_resolved(size_t slot) const { return slot >= fixed_ && slot < first_added_; }
  EndpointState& state(size_t slot) { return slots_[slot].state; }
  const EndpointState& state(size_t slot) const { return slots_[slot].state; }

  /// Changes with each change of EndpointHealth::in() of any endpoint.
  uint64_t health_generation() const { return health_generation_.load(std::memory_order_relaxed); }
  void note_health_change() { health_generation_.fetch_add(1, std::memory_order_relaxed); }

  struct Change {
    uint32_t added = 0;
    uint32_t removed = 0;
    uint32_t adjusted = 0;  ///< Endpoints whose weight or priority changed.
    uint32_t left_out = 0;  ///< Endpoints for which there was no slot.
    uint32_t present = 0;   ///< Endpoints that are present now.

    bool any() const { return added + removed + adjusted > 0; }
  };
  /// Replaces the endpoints of configured endpoint `configured`, which is a name, by `now`. Must be called on one
  /// thread only, and not a worker's: tables of many endpoints take milliseconds (docs/guides/balancing.md). New
  /// endpoints start slowly from `now_ms` on (Upstream::slow_start), or immediately with their full share if it is 0.
  Change replace(uint32_t configured, std::span<const ResolvedEndpoint> now, uint64_t now_ms = 0);
  /// Changes how an endpoint is used, until another call or until the slot gets another address. False if the slot does
  /// not have this address any more. `weight`: 0: as configured. Callable on any thread but a worker's, at any time.
  bool change(uint32_t slot, std::string_view address, EndpointMode mode, uint32_t weight, uint64_t now_ms);

  /// Adds an endpoint. `before_use` is called with its slot if that had another address before, or none; nothing uses
  /// the slot then. Fails with ResourceExhausted if there is no place. Callable on any thread but a worker's, like
  /// remove(), restore() and find_removed().
  absl::StatusOr<uint32_t> add(const ResolvedEndpoint& endpoint, uint64_t now_ms,
                               absl::FunctionRef<void(uint32_t slot)> before_use);
  /// Removes an endpoint that was added, or that is configured as an address: it is not chosen any more. Precondition:
  /// not is_resolved(slot).
  void remove(uint32_t slot);
  /// Undoes remove() of a configured endpoint, which starts anew.
  void restore(uint32_t slot, uint64_t now_ms);
  /// The slot of a configured address that is removed.
  std::optional<uint32_t> find_removed(std::string_view address) const;
  /// An added endpoint, or one that is removed but still has connections.
  struct Added {
    uint32_t slot;
    std::string address;
  };
  /// In the order of their slots. Callable on any thread.
  std::vector<Added> added() const;

  /// Takes over the states of the endpoints that `old` has at the same addresses, and the present addresses of the
  /// names that both have. Must be called before there is any view.
  void continue_from(const EndpointTable& old);
  /// The first part of that again, for endpoints that were added since.
  void continue_states(const EndpointTable& old);
  /// The present endpoints of a configured endpoint. On the thread of replace().
  std::vector<ResolvedEndpoint> present_of(uint32_t configured) const;
  /// Remakes the set from the endpoints that are present; replace() does so by itself. On the thread of replace().
  void renew_set();

 private:
  friend class EndpointView;
  struct Slot {
    uint32_t configured = 0;
    std::atomic<uint32_t> weight{1};
    std::atomic<uint32_t> changed_weight{0};  // 0: there is none.
    std::atomic<uint32_t> priority{0};
    std::atomic<uint32_t> holders{0};  // Views that may use the slot.
    uint64_t left_at = 0;              // The generation in which it was removed; only for the resolver's thread.
    config::Address address;           // Written only while the slot is free.
    std::string text;
    EndpointState state;
  };
  bool is_of(const Slot& slot, uint32_t configured) const;
  bool is_free(const Slot& slot) const;
  /// Returns the slot that had the address last, or a free one; null if there is none.
  Slot* find_place(uint32_t configured, const config::Address& address);
  Slot* find_place_for_added(const config::Address& address);
  static bool adjust(Slot& slot, const ResolvedEndpoint& to);
  void occupy(Slot& slot, const ResolvedEndpoint& by, uint64_t now_ms);

  const config::Snapshot<config::Upstream> config_;
  size_t size_;
  size_t fixed_;        // The number of slots at the front with configured addresses.
  size_t first_added_;  // Those from here on are for added endpoints; the others are of names.
  std::unique_ptr<Slot[]> slots_;
  mutable std::mutex change_mutex_;  // Held by all changes of slots, which may come from several threads.
  mutable std::mutex mutex_;         // Guards set_ and views_.
  std::shared_ptr<const EndpointSet> set_;
  std::atomic<uint64_t> generation_{0};  // The generation of set_; stored after set_.
  std::vector<EndpointView*> views_;
  std::atomic<uint64_t> health_generation_{0};
};

/// One thread's view of an upstream's endpoints: which are present, and which it still uses.
///
/// It changes only in refresh(). Until then its present endpoints stay present, and a slot that is held keeps its
/// address while it is held.
class EndpointView {
 public:
  explicit EndpointView(EndpointTable& slots);
  ~EndpointView();
  EndpointView(const EndpointView&) = delete;
  EndpointView& operator=(const EndpointView&) = delete;

  /// Updates the view. Returns whether anything changed. Costs one load if nothing did.
  bool refresh() {
    if (slots_.generation() <= generation()) return false;
    follow();
    return true;
  }
  /// The generation of the view.
  uint64_t generation() const { return seen_.load(std::memory_order_relaxed); }
  /// The present endpoints. Valid until the next refresh().
  const EndpointSet& set() const { return *set_; }
  /// The slots that are present, in ascending order.
  std::span<const uint32_t> present() const { return set_->members(); }
  bool is_present(uint32_t slot) const { return uses_[slot].present; }

  /// Keeps a slot in use even after its endpoint is removed. Precondition: the slot is present.
  void hold(uint32_t slot) { ++uses_[slot].count; }
  /// Undoes one hold().
  void let_go(uint32_t slot) {
    Use& use = uses_[slot];
    SLUICE_DCHECK(use.count > 0);
    if (--use.count == 0 && !use.present) leave(slot);
  }

 private:
  friend class EndpointTable;
  struct Use {
    uint32_t count = 0;
    bool present = false;
    bool entered = false;  // Counted among the slot's holders.
  };
  void follow();
  void leave(uint32_t slot);

  EndpointTable& slots_;
  std::atomic<uint64_t> seen_{0};
  std::vector<Use> uses_;
  std::shared_ptr<const EndpointSet> set_;
};

}  // namespace sluice
