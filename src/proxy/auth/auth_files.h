#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "absl/status/statusor.h"
#include "net/helper_threads.h"
#include "proxy/auth/jwt_keys.h"
#include "proxy/auth/users.h"
#include "proxy/config/model/config.h"

namespace sluice {

/// The contents of the files of one route's `auth`: one of the two, or none without `auth`.
struct AuthFiles {
  std::unique_ptr<const Users> users;
  std::unique_ptr<const JwtKeys> keys;
};

/// AuthFiles for a listener's routes, by route index.
using ListenerAuthFiles = std::vector<AuthFiles>;

/// Reads the file of a route's `auth`, if it has one. The error names the file and what is wrong with it.
absl::StatusOr<AuthFiles> read_auth_files(const config::HttpRoute& route);

/// Reads the files of all routes of a listener. Fails if one of them fails; the error is for the operator and names the
/// route, the file, and what is wrong with it.
absl::StatusOr<ListenerAuthFiles> read_auth_files(const config::Listener& listener);

/// The state of a listener's `auth` that all workers share. The files can be replaced while workers use them: each
/// worker compares the generation once per request.
class SharedAuth {
 public:
  /// The number of threads that check passwords with slow hashes, per listener. Two are enough: a good hash takes 50
  /// ms, and results are cached.
  static constexpr unsigned kPasswordThreads = 2;

  SharedAuth() = default;
  SharedAuth(const SharedAuth&) = delete;
  SharedAuth& operator=(const SharedAuth&) = delete;

  void replace(ListenerAuthFiles files) {
    auto made = std::make_shared<const ListenerAuthFiles>(std::move(files));
    const std::lock_guard lock(mutex_);
    files_ = std::move(made);
    generation_.fetch_add(1, std::memory_order_release);
  }
  std::shared_ptr<const ListenerAuthFiles> take() const {
    const std::lock_guard lock(mutex_);
    return files_;
  }
  /// Changes with each replace(). 0 before the first one.
  uint32_t generation() const { return generation_.load(std::memory_order_acquire); }

  HelperThreads& password_threads() { return password_threads_; }

 private:
  mutable std::mutex mutex_;
  std::shared_ptr<const ListenerAuthFiles> files_;
  std::atomic<uint32_t> generation_{0};
  HelperThreads password_threads_{kPasswordThreads};
};

}  // namespace sluice
