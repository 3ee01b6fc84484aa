#include "proxy/metrics/overload_counters.h"

namespace sluice {

const char* overload_action_name(OverloadAction action) {
  static constexpr const char* kNames[kOverloadActionCount] = {
      "close_after_response", "goaway", "reduce_timeouts", "close_connection", "refuse_connection", "refuse_request"};
  return kNames[static_cast<size_t>(action)];
}

}  // namespace sluice
