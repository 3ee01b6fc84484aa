#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

#include "proxy/common/name_match.h"

namespace sluice {

namespace config {
struct Listener;
}

/// Which of several listeners at the same addresses a server name belongs to.
class ListenerNames {
 public:
  static constexpr size_t kNone = SIZE_MAX;

  ListenerNames() = default;
  /// Keeps nothing of the listeners.
  explicit ListenerNames(const std::vector<const config::Listener*>& listeners);

  /// The index of the listener that has the name, else of the one with the longest wildcard for it, else of the one
  /// without names; kNone if there is none. `name`: in lower case without a trailing dot; empty: none was sent.
  size_t find(std::string_view name) const;
  /// The index of the listener without names; kNone if there is none.
  size_t rest() const { return rest_; }

 private:
  NameTable names_;
  size_t rest_ = kNone;
};

}  // namespace sluice
