// What the content of hand-over messages is made of.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "alts_like/secret_bytes.h"
#include "proxy/listener/moving_session.h"

namespace sluice {

inline std::string_view text_of(const SecretBytes& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

/// The sockets of one address of a listener.
struct HandedSocket {
  std::string listener;  ///< The name.
  std::string address;   ///< As configured.
  bool both_families = false;
  uint32_t ordinal = 0;  ///< Among equal addresses of the listener.
  std::vector<int> fds;  ///< Not owned.

  void write(SecretBytes& out) const;
  /// Without descriptors. False if the bytes are malformed.
  bool read(const SecretBytes& bytes);
};

/// Appends a session without its descriptors, beginning with the version.
void write_session(const MovingSession& session, SecretBytes& out);
/// The inverse. False if the bytes have another version or are malformed.
bool read_session(const SecretBytes& bytes, MovingSession& session);

}  // namespace sluice
