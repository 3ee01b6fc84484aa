#include "proxy/listener/connection_facts.h"

#include <array>

namespace sluice {

const char* connection_state_name(ConnectionState state) {
  constexpr std::array<const char*, kConnectionStateCount> kNames = {
      "handshake", "inspecting", "connecting", "forwarding", "request",
      "idle",      "paused",     "moving",     "draining",   "closing"};
  return kNames[static_cast<size_t>(state)];
}

}  // namespace sluice
