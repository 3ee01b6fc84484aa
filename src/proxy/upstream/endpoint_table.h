// The places that an upstream's endpoints have: fixed in number, while what is in them comes and goes.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "pool/check.h"
#include "proxy/config/model/config.h"
#include "proxy/upstream/endpoint_set.h"
#include "proxy/upstream/endpoint_state.h"

namespace sluice {

/// What a name stands for just now.
struct ResolvedEndpoint {
  config::Address address;
  uint32_t weight = 1;
  uint32_t priority = 0;

  bool operator==(const ResolvedEndpoint&) const = default;
};

class EndpointView;

/// An upstream's endpoints as slots, numbered from 0. An address of the configuration has one for ever. What names
/// stand for is put into the others by one thread, the resolver's, while any number of threads look on, each through
/// an EndpointView.
///
/// The address in a slot never changes under those who look: one that goes leaves its slot, and that gets another
/// address only when every view has seen it go and none holds it any more. There are twice `resolve.max_addresses` of
/// them for each name, so that all of them may change while the old ones are still in use.
///
/// Which of them are present is told by an EndpointSet, made anew with every change.
class EndpointTable {
 public:
  explicit EndpointTable(const config::Upstream& upstream);
  ~EndpointTable();
  EndpointTable(const EndpointTable&) = delete;
  EndpointTable& operator=(const EndpointTable&) = delete;

  const config::Upstream& config() const { return config_; }
  size_t size() const { return size_; }
  /// Of endpoint_set(): grows with every change of what is present, of weights and priorities.
  uint64_t generation() const { return generation_.load(std::memory_order_acquire); }
  std::shared_ptr<const EndpointSet> endpoint_set() const;

  // Of a slot that is present in the caller's view, or held there.

  const config::Address& address(size_t slot) const { return slots_[slot].address; }
  /// The address as text.
  const std::string& text(size_t slot) const { return slots_[slot].text; }

  // Of any slot.

  uint32_t weight(size_t slot) const { return slots_[slot].weight.load(std::memory_order_relaxed); }
  uint32_t priority(size_t slot) const { return slots_[slot].priority.load(std::memory_order_relaxed); }
  /// Which of config::Upstream::endpoints it is, or is of.
  uint32_t configured(size_t slot) const { return slots_[slot].configured; }
  EndpointState& state(size_t slot) { return slots_[slot].state; }
  const EndpointState& state(size_t slot) const { return slots_[slot].state; }

  struct Change {
    uint32_t added = 0;
    uint32_t removed = 0;
    uint32_t adjusted = 0;  ///< Got another weight or priority.
    uint32_t left_out = 0;  ///< There was no place for them.
    uint32_t present = 0;   ///< So many there are now.

    bool any() const { return added + removed + adjusted > 0; }
  };
  /// From now on configured endpoint `configured`, which is a name, stands for `now`. On one thread only, and not a
  /// worker: tables of many endpoints take milliseconds (docs/balancing.md). `now_ms`: those that come start slowly
  /// from here on (Upstream::slow_start); 0: they do not.
  Change replace(uint32_t configured, std::span<const ResolvedEndpoint> now, uint64_t now_ms = 0);
  /// What it stands for. On that same thread.
  std::vector<ResolvedEndpoint> present_of(uint32_t configured) const;
  /// Makes the set anew, of those that are present: replace() does. On that same thread.
  void renew_set();

 private:
  friend class EndpointView;
  struct Slot {
    uint32_t configured = 0;
    std::atomic<uint32_t> weight{1};
    std::atomic<uint32_t> priority{0};
    std::atomic<uint32_t> holders{0};  // Views.
    uint64_t left_at = 0;              // The generation that it went in; the resolver's.
    config::Address address;           // Written while it is free.
    std::string text;
    EndpointState state;
  };
  bool is_of(const Slot& slot, uint32_t configured) const;
  bool is_free(const Slot& slot) const;
  /// Where the address has just been, or a free one; null if there is none.
  Slot* find_place(uint32_t configured, const config::Address& address);
  static bool adjust(Slot& slot, const ResolvedEndpoint& to);
  void occupy(Slot& slot, const ResolvedEndpoint& by, uint64_t now_ms);

  const config::Upstream& config_;
  size_t size_;
  size_t fixed_;  // The first of these are the configuration's addresses.
  std::unique_ptr<Slot[]> slots_;
  mutable std::mutex mutex_;  // Of the views, and of:
  std::shared_ptr<const EndpointSet> set_;
  std::atomic<uint64_t> generation_{0};  // Of the set; behind it.
  std::vector<EndpointView*> views_;
};

/// What one thread knows of an upstream's endpoints: which there are, and which it still uses.
///
/// It changes in refresh() only. Until then all that was present is; and what is held stays where it is for as long.
class EndpointView {
 public:
  explicit EndpointView(EndpointTable& slots);
  ~EndpointView();
  EndpointView(const EndpointView&) = delete;
  EndpointView& operator=(const EndpointView&) = delete;

  /// Takes up what has changed; true if anything has. Costs one load if not.
  bool refresh() {
    if (slots_.generation() <= generation()) return false;
    follow();
    return true;
  }
  /// Of what is known.
  uint64_t generation() const { return seen_.load(std::memory_order_relaxed); }
  /// What is present, to look it up in. Until the next refresh().
  const EndpointSet& set() const { return *set_; }
  /// The slots that are present, in their order.
  std::span<const uint32_t> present() const { return set_->members(); }
  bool is_present(uint32_t slot) const { return uses_[slot].present; }

  /// The slot, which is present, is used from here on, whatever becomes of it;
  void hold(uint32_t slot) { ++uses_[slot].count; }
  /// and as often no longer.
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
