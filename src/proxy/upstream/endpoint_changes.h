#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>

#include "proxy/upstream/endpoint_state.h"
#include "proxy/upstream/endpoint_table.h"

namespace sluice {

/// How an operator has changed an endpoint while the process runs.
struct EndpointChange {
  EndpointMode mode = EndpointMode::kEnabled;
  uint32_t weight = 0;  ///< 0: as configured.
  bool keep = false;    ///< Whether reloads keep it.
  int64_t at_s = 0;     ///< When it was made, in seconds since 1970.
  std::string by;       ///< Who made it.

  bool any() const { return mode != EndpointMode::kEnabled || weight != 0; }
};

/// The changes of an upstream's endpoints. Any thread but the workers may use it.
class EndpointChanges {
 public:
  /// `slots` outlives it.
  explicit EndpointChanges(EndpointTable& slots) : slots_(slots) {}

  /// Makes a change in the place of the one before; one without any effect ends it. All workers follow with their next
  /// choice. The slot is present in a view of the caller. `now_ms`: an endpoint that is enabled again starts slowly
  /// from then on (Upstream::slow_start).
  void make(uint32_t slot, const EndpointChange& change, uint64_t now_ms);
  /// The change of an endpoint, if there is one. The slot is present in a view of the caller.
  std::optional<EndpointChange> of(uint32_t slot) const;
  /// Ends all changes that reloads do not keep. Returns how many.
  size_t end_unkept(uint64_t now_ms);
  /// Takes over the changes that reloads keep, of the endpoints that both have. Must be called before there is any
  /// view.
  void continue_from(const EndpointChanges& old);

 private:
  struct Entry {
    std::string address;
    EndpointChange change;
  };

  EndpointTable& slots_;
  mutable std::mutex mutex_;
  std::map<uint32_t, Entry> entries_;  // By slot. Guarded by mutex_.
};

}  // namespace sluice
