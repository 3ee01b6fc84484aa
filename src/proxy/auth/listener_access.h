#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "pool/chunk_pool.h"
#include "proxy/auth/auth_files.h"
#include "proxy/auth/auth_result.h"
#include "proxy/auth/basic_authenticator.h"
#include "proxy/auth/cors_policy.h"
#include "proxy/auth/jwt_authenticator.h"
#include "proxy/config/model/config.h"
#include "proxy/http/message/client_ip.h"
#include "proxy/http/message/head.h"

namespace sluice {

/// Whether a client's address may ask: `deny` is looked at first; then `allow`, where it says anything, must have it. A
/// client without an address (of a Unix socket) is in no range.
bool admits_address(const std::vector<config::Cidr>& allow, const std::vector<config::Cidr>& deny,
                    const ClientIp& client);

/// Who may ask a listener for what, on one worker.
class ListenerAccess {
 public:
  /// Null where the listener and its routes say nothing of that. `shared` outlives it.
  static std::unique_ptr<ListenerAccess> make(const config::Http& http, SharedAuth& shared);
  ListenerAccess(const config::Http& http, SharedAuth& shared);
  ListenerAccess(const ListenerAccess&) = delete;
  ListenerAccess& operator=(const ListenerAccess&) = delete;

  /// By address; `route` is null where there is none.
  bool admits(const config::HttpRoute* route, const ClientIp& client) const;
  /// Null: none.
  const CorsPolicy* cors(uint32_t route) const { return route < cors_.size() ? cors_[route].get() : nullptr; }

  struct Proof {
    AuthResult verdict = AuthResult::kAdmitted;
    std::string_view challenge = {};  ///< With kRefused; good until the next one is asked for.
    PasswordCheck* check = nullptr;   ///< With kLater.
  };
  /// Whether the client has proven what `route` asks for. What only the proxy may say of a client is taken out of the
  /// request before, and put in if so.
  Proof check(uint32_t route, ChunkPool& pool, Head& request);
  /// Of the same route, after a check that came to something else than good.
  std::string_view challenge(uint32_t route) const;
  /// Takes what proves it out of the request, unless it is to be forwarded. After kAdmitted, or a check that was good.
  void hide_proof(uint32_t route, Head& request) const;

 private:
  // What routes with the same `auth` share.
  struct Gate {
    const config::Auth& config;
    size_t route;  // The first of them, whose files count.
    std::unique_ptr<JwtAuthenticator> jwt;
    std::unique_ptr<BasicAuthenticator> basic;
  };

  Gate* gate(uint32_t route) const { return route < gate_of_route_.size() ? gate_of_route_[route] : nullptr; }
  void refresh();

  const config::Http& http_;
  SharedAuth& shared_;
  std::shared_ptr<const ListenerAuthFiles> files_;
  uint32_t generation_ = 0;
  std::deque<Gate> gates_;
  std::vector<Gate*> gate_of_route_;  // Null: everybody.
  std::vector<std::unique_ptr<CorsPolicy>> cors_;
};

}  // namespace sluice
