#pragma once

#include <openssl/ssl.h>

#include <cstdint>
#include <utility>
#include <vector>

namespace sluice {

/// The TLS sessions that one worker can resume with the endpoints of one upstream, up to kPerEndpoint for each, newest
/// first.
class SessionCache {
 public:
  static constexpr size_t kPerEndpoint = 8;

  explicit SessionCache(size_t endpoints) : sessions_(endpoints) {}

  /// Returns a session for a connection to `endpoint`, or null. `generation`: that of the connection's SSL_CTX. When it
  /// changes, all sessions of the old context are discarded.
  bssl::UniquePtr<SSL_SESSION> take(uint32_t endpoint, uint16_t generation) {
    forget_others(generation);
    Sessions& sessions = sessions_[endpoint];
    if (sessions.empty()) return nullptr;
    // A TLS 1.3 ticket is used only once (RFC 8446 section C.4); a reused one would link connections to one client.
    if (!SSL_SESSION_should_be_single_use(sessions.back().get())) return bssl::UpRef(sessions.back());
    bssl::UniquePtr<SSL_SESSION> session = std::move(sessions.back());
    sessions.pop_back();
    return session;
  }

  void put(uint32_t endpoint, uint16_t generation, bssl::UniquePtr<SSL_SESSION> session) {
    if (!session || !SSL_SESSION_is_resumable(session.get())) return;
    forget_others(generation);
    Sessions& sessions = sessions_[endpoint];
    if (sessions.size() == kPerEndpoint) sessions.erase(sessions.begin());
    sessions.push_back(std::move(session));
  }

 private:
  using Sessions = std::vector<bssl::UniquePtr<SSL_SESSION>>;

  void forget_others(uint16_t generation) {
    if (std::exchange(generation_, generation) == generation) return;
    for (Sessions& sessions : sessions_) sessions.clear();
  }

  std::vector<Sessions> sessions_;  // Indexed by endpoint.
  uint16_t generation_ = 0;
};

}  // namespace sluice
