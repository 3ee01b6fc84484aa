#pragma once

#include <cstdint>

namespace sluice {

/// Where a socket's received bytes go. kProvided is the default; the other modes are what proxies usually do, for
/// comparison and as a fallback.
enum class ReadMode : uint8_t {
  kProvided,  ///< Into buffers that all sockets share: an idle socket holds none.
  kReady,     ///< Into a buffer that is taken once the socket is readable.
  kPinned,    ///< Into a buffer that the socket holds while it waits.
};

}  // namespace sluice
