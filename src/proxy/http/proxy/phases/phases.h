#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "proxy/http/proxy/phases/phase.h"
#include "proxy/router/http_router.h"

namespace sluice {

/// The points of an exchange at which phases run, in order.
enum class PhaseStep : uint8_t {
  kAdmit,           ///< The route is known: may the request pass? Also for requests that match no route.
  kAct,             ///< The route responds itself, or forwards.
  kForward,         ///< The upstream is chosen: the request is changed as the upstream is to see it.
  kSend,            ///< The head is what the upstream gets.
  kResponseFields,  ///< Any response: the fields that features add.
  kResponseRules,   ///< Any response: changes that have the last word on its fields.
  kResponseBody,    ///< An upstream's response, whose fields the access log has seen.
  kNone,
};
inline constexpr size_t kPhaseSteps = static_cast<size_t>(PhaseStep::kNone);

/// The phases that a route uses.
class RoutePhases {
 public:
  const std::vector<Phase*>& at(PhaseStep step) const { return at_[static_cast<size_t>(step)]; }

 private:
  friend class ListenerPhases;
  std::array<std::vector<Phase*>, kPhaseSteps> at_;
};

/// The phases of a listener's routes, on one worker.
class ListenerPhases {
 public:
  ListenerPhases();
  ~ListenerPhases();
  ListenerPhases(const ListenerPhases&) = delete;
  ListenerPhases& operator=(const ListenerPhases&) = delete;

  /// Makes the phases of all routes. `setup` is for requests without a route.
  void make(PhaseSetup setup, const std::vector<HttpTarget>& targets);
  /// The phases of requests with this target, or null if there are none. `target` is null if no route matches.
  const RoutePhases* of(const HttpTarget* target) const {
    return target ? by_route_[target->index].get() : without_route_.get();
  }

 private:
  std::unique_ptr<RoutePhases> make_for(const PhaseSetup& setup);

  std::vector<std::unique_ptr<Phase>> phases_;
  std::vector<std::unique_ptr<RoutePhases>> by_route_;  // Null for a route without phases.
  std::unique_ptr<RoutePhases> without_route_;
};

}  // namespace sluice
