#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "proxy/upstream/endpoint_state.h"
#include "proxy/upstream/endpoint_table.h"

namespace sluice {

/// Whether an operator has added an endpoint, or removed one.
enum class EndpointPresence : uint8_t {
  kConfigured,
  kAdded,
  kRemoved,  ///< A configured endpoint.
};

/// How an operator has changed an endpoint while the process runs.
struct EndpointChange {
  EndpointPresence presence = EndpointPresence::kConfigured;
  EndpointMode mode = EndpointMode::kEnabled;
  uint32_t weight = 0;  ///< 0: as configured, or as added.
  bool keep = false;    ///< Whether reloads keep it.
  int64_t at_s = 0;     ///< When it was made, in seconds since 1970.
  std::string by;       ///< Who made it.

  bool any() const {
    return presence != EndpointPresence::kConfigured || mode != EndpointMode::kEnabled || weight != 0;
  }
};

/// The changes of an upstream's endpoints. Any thread but the workers may use it.
class EndpointChanges {
 public:
  /// `slots` outlives it.
  explicit EndpointChanges(EndpointTable& slots) : slots_(slots) {}

  /// Makes a change in the place of the one before; one without any effect ends it. All workers follow with their next
  /// choice. The slot is present in a view of the caller, and `change` has the presence that the last change had: only
  /// the next functions change that. `now_ms`: an endpoint that is enabled again starts slowly from then on
  /// (Upstream::slow_start).
  void make(uint32_t slot, const EndpointChange& change, uint64_t now_ms);
  /// Adds an endpoint, or restores a configured one that was removed, whose weight and priority are then the configured
  /// ones. Returns its slot, in which the other functions find it as long as the caller alone changes endpoints.
  /// `change`: who adds it, and what else differs. Errors and `before_use`: see EndpointTable::add().
  absl::StatusOr<uint32_t> add(const ResolvedEndpoint& endpoint, EndpointChange change, uint64_t now_ms,
                               absl::FunctionRef<void(uint32_t slot)> before_use);
  /// Removes an endpoint. `change`: who does that, and whether reloads keep it. Precondition: its address does not come
  /// from a name.
  void remove(uint32_t slot, EndpointChange change);
  /// The change of an endpoint, if there is one. The slot is present in a view of the caller.
  std::optional<EndpointChange> of(uint32_t slot) const;
  /// The removal of a configured endpoint, if it is removed.
  std::optional<EndpointChange> removal_of(uint32_t configured) const;
  /// Ends all changes that reloads do not keep. Returns how many.
  size_t end_unkept(uint64_t now_ms);
  /// Takes over the changes that reloads keep: of the endpoints that both have, and the endpoints that were added. Must
  /// be called before there is any view.
  void continue_from(const EndpointChanges& old);

 private:
  struct Entry {
    std::string address;
    EndpointChange change;
    std::optional<ResolvedEndpoint> added = {};
  };
  void enter(uint32_t slot, Entry entry);
  void take_over(const Entry& entry);

  EndpointTable& slots_;
  mutable std::mutex mutex_;
  std::map<uint32_t, Entry> entries_;  // By slot. Guarded by mutex_.
};

}  // namespace sluice
