#pragma once

#include <openssl/ssl.h>

#include <cstdint>
#include <utility>
#include <vector>

namespace sluice {

/// TLS sessions that one worker can resume with the endpoints of one upstream: some per endpoint, the newest first.
class SessionCache {
 public:
  static constexpr size_t kPerEndpoint = 8;

  explicit SessionCache(size_t endpoints) : sessions_(endpoints) {}

  /// A session for a connection to `endpoint`, or null. `generation`: of the context that the connection has; when it
  /// is a new one, what was certified for the old one is forgotten.
  bssl::UniquePtr<SSL_SESSION> take(uint32_t endpoint, uint16_t generation) {
    forget_others(generation);
    Sessions& sessions = sessions_[endpoint];
    if (sessions.empty()) return nullptr;
    // A ticket of TLS 1.3 is used once (RFC 8446 section C.4): otherwise connections could be told to be of one client.
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

  std::vector<Sessions> sessions_;  // By endpoint.
  uint16_t generation_ = 0;
};

}  // namespace sluice
