#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "proxy/auth/auth_files.h"
#include "proxy/auth/auth_result.h"
#include "proxy/auth/basic_authenticator.h"
#include "proxy/auth/cors_policy.h"
#include "proxy/auth/jwt_authenticator.h"
#include "proxy/config/model/config.h"
#include "proxy/config/model/snapshot.h"
#include "proxy/http/message/client_ip.h"
#include "proxy/http/message/head.h"
#include "sluice/chunk_pool.h"

namespace sluice {

/// Whether the ranges admit a client's address: it must not be in `deny`, and must be in `allow` unless that is empty.
/// A client without an address (of a Unix socket) is in no range.
bool admits_address(const std::vector<config::Cidr>& allow, const std::vector<config::Cidr>& deny,
                    const ClientIp& client);

/// The access control of one listener on one worker: addresses, authentication, and CORS.
class ListenerAccess {
 public:
  /// Returns null if neither the listener nor a route has any access rules. `shared` outlives it.
  static std::unique_ptr<ListenerAccess> make(const config::Snapshot<config::Http>& http, SharedAuth& shared);
  ListenerAccess(const config::Snapshot<config::Http>& http, SharedAuth& shared);
  ListenerAccess(const ListenerAccess&) = delete;
  ListenerAccess& operator=(const ListenerAccess&) = delete;

  /// Whether the client's address is admitted. `route` is null if no route matches.
  bool admits(const config::HttpRoute* route, const ClientIp& client) const;
  /// The CORS policy of a route; null if it has none.
  const CorsPolicy* cors(uint32_t route) const { return route < cors_.size() ? cors_[route].get() : nullptr; }

  struct Proof {
    AuthResult verdict = AuthResult::kAdmitted;
    std::string_view challenge = {};  ///< With kRefused; valid until the next check().
    PasswordCheck* check = nullptr;   ///< With kLater, the pending check.
  };
  /// Checks the credentials that `route` requires. If they are admitted, adds the fields with the token's claims.
  /// Precondition: the caller has removed the reserved headers from the request.
  Proof check(uint32_t route, ChunkPool& pool, Head& request);
  using NameRoom = BasicAuthenticator::Scratch;
  /// The name of the client that check(), or the password check that it began, has admitted: that of the password, or
  /// the subject of the token; empty if it has none. Precondition: its credentials have not been removed, and no other
  /// request was checked since check(), unless that returned kLater. Valid until the next check(), and as long as
  /// `room`.
  std::string_view user(uint32_t route, const Head& request, NameRoom& room) const;
  /// The challenge of a route, for use after its password check failed.
  std::string_view challenge(uint32_t route) const;
  /// Removes the credentials from the request unless they are to be forwarded. For use after kAdmitted or a successful
  /// password check.
  void remove_credentials(uint32_t route, Head& request) const;

 private:
  // The authenticator that routes with equal `auth` share.
  struct Gate {
    config::Snapshot<config::Auth> config;
    size_t route;  // The first of these routes, whose files are used.
    std::unique_ptr<JwtAuthenticator> jwt;
    std::unique_ptr<BasicAuthenticator> basic;
  };

  Gate* gate(uint32_t route) const { return route < gate_of_route_.size() ? gate_of_route_[route] : nullptr; }
  void refresh();

  const config::Snapshot<config::Http> http_;
  SharedAuth& shared_;
  std::shared_ptr<const ListenerAuthFiles> files_;
  uint32_t generation_ = 0;
  std::deque<Gate> gates_;
  std::vector<Gate*> gate_of_route_;  // By route; null without `auth`.
  std::vector<std::unique_ptr<CorsPolicy>> cors_;
};

}  // namespace sluice
