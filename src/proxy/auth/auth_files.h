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

/// What the files of one route's `auth` say: one of the two, or none without `auth`.
struct AuthFiles {
  std::unique_ptr<const Users> users;
  std::unique_ptr<const JwtKeys> keys;
};

/// The same for a listener's routes, by index.
using ListenerAuthFiles = std::vector<AuthFiles>;

/// Reads the file of a route's `auth`; nothing without one. The error names the file, and what is wrong with it.
absl::StatusOr<AuthFiles> read_auth_files(const config::HttpRoute& route);

/// Reads all files of a listener, or none: the error is for the operator and names the route, the file, and what is
/// wrong with it.
absl::StatusOr<ListenerAuthFiles> read_auth_files(const config::Listener& listener);

/// What all workers share of a listener's `auth`. The files can be replaced while workers use them, who look at the
/// generation once per request.
class SharedAuth {
 public:
  /// Threads on which passwords with slow hashes are checked, for one listener. Two: a good hash takes 50 ms, and what
  /// was checked is remembered.
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
  /// Another number, another set of files. 0: there is none yet.
  uint32_t generation() const { return generation_.load(std::memory_order_acquire); }

  HelperThreads& password_threads() { return password_threads_; }

 private:
  mutable std::mutex mutex_;
  std::shared_ptr<const ListenerAuthFiles> files_;
  std::atomic<uint32_t> generation_{0};
  HelperThreads password_threads_{kPasswordThreads};
};

}  // namespace sluice
