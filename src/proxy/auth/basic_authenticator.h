#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "net/helper_threads.h"
#include "proxy/auth/auth_result.h"
#include "proxy/auth/password_hash.h"
#include "proxy/auth/token_cache.h"
#include "proxy/auth/users.h"
#include "proxy/common/base64.h"
#include "proxy/config/model/config.h"
#include "proxy/http/message/fields.h"

namespace sluice {

class BasicAuthenticator;

/// A password check that runs on a helper thread.
class PasswordCheck final : public HelperThreads::Job {
 public:
  using Done = void (*)(void* context, bool fits);

  PasswordCheck(BasicAuthenticator& gate, std::string_view hash, std::string_view password, const SecretDigest& digest,
                bool known);
  ~PasswordCheck() override;

  /// Sets the function to call on the worker with the result. After forget() none is called.
  void tell(Done done, void* context) {
    done_ = done;
    context_ = context;
  }
  void forget() { done_ = nullptr; }

  void run() override;
  void finish(Worker& worker, std::unique_ptr<Job> self) override;

 private:
  BasicAuthenticator& gate_;  // Not to be used by run(), which is on another thread.
  const uint32_t generation_;
  const std::string hash_;
  std::string password_;
  const SecretDigest digest_;
  const bool known_;
  bool fits_ = false;
  Done done_ = nullptr;
  void* context_ = nullptr;
};

/// Authenticates clients by password (HTTP Basic) on one worker. Passwords that were good are cached as digests under a
/// key of this process, until the file is read again: a strong hash takes 50 ms on another thread.
class BasicAuthenticator {
 public:
  /// The maximum number of password checks in flight for one worker.
  static constexpr size_t kMaxChecks = 64;

  BasicAuthenticator(const config::BasicAuth& rules, HelperThreads& threads);
  BasicAuthenticator(const BasicAuthenticator&) = delete;
  BasicAuthenticator& operator=(const BasicAuthenticator&) = delete;

  /// Replaces the users, and clears the cache. `users` must outlive their use here.
  void use(const Users& users);

  /// Checks the request's credentials. After kLater, `check` is the pending check, to which the caller attaches a
  /// function, or which it forgets. Without a helper-thread desk on this thread the password is checked synchronously.
  /// Precondition: use() was called.
  AuthResult check(const Fields& fields, PasswordCheck*& check);
  /// Room for the name and the password of a request, as find_password() needs it.
  static constexpr size_t kMaxDecodedBytes = Users::kMaxNameBytes + 1 + kMaxPasswordBytes;
  using Scratch = std::array<unsigned char, base64_room(kMaxDecodedBytes * 4 / 3 + 4)>;
  /// The name in the request's credentials, as a view of `scratch`; empty if they cannot be read.
  static std::string_view name_of(const Fields& fields, Scratch& scratch);
  /// The value of WWW-Authenticate (RFC 7617 section 2), for use after kRefused and after a failed check.
  std::string_view challenge() const { return challenge_; }

 private:
  friend class PasswordCheck;
  AuthResult remember(const SecretDigest& digest, bool fits);

  const std::string challenge_;
  HelperThreads& threads_;
  const Users* users_ = nullptr;
  TokenCache cache_;
  size_t checks_ = 0;
  uint32_t generation_ = 0;  // Increases with each use().
};

}  // namespace sluice
