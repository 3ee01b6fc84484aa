#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "net/helper_threads.h"
#include "proxy/auth/auth_result.h"
#include "proxy/auth/token_cache.h"
#include "proxy/auth/users.h"
#include "proxy/config/model/config.h"
#include "proxy/http/message/fields.h"

namespace sluice {

class BasicAuthenticator;

/// A password that is being checked by helper threads, for somebody who waits.
class PasswordCheck final : public HelperThreads::Job {
 public:
  using Done = void (*)(void* context, bool fits);

  PasswordCheck(BasicAuthenticator& gate, std::string_view hash, std::string_view password, const SecretDigest& digest,
                bool known);
  ~PasswordCheck() override;

  /// Who is to be told, on the worker, when it is done. Nobody, after forget().
  void tell(Done done, void* context) {
    done_ = done;
    context_ = context;
  }
  void forget() { done_ = nullptr; }

  void run() override;
  void finish(Worker& worker, std::unique_ptr<Job> self) override;

 private:
  BasicAuthenticator& gate_;  // Not for run().
  const uint32_t generation_;
  const std::string hash_;
  std::string password_;
  const SecretDigest digest_;
  const bool known_;
  bool fits_ = false;
  Done done_ = nullptr;
  void* context_ = nullptr;
};

/// Admits those with a good password, on one worker. Those that were good are remembered, as digests under a key of
/// this process, until the file is read again: a hash that is worth its name takes 50 ms, on another thread.
class BasicAuthenticator {
 public:
  /// Passwords at once that a worker has checked.
  static constexpr size_t kMaxChecks = 64;

  BasicAuthenticator(const config::BasicAuth& rules, HelperThreads& threads);
  BasicAuthenticator(const BasicAuthenticator&) = delete;
  BasicAuthenticator& operator=(const BasicAuthenticator&) = delete;

  /// The users from now on.
  void use(const Users& users);

  /// After kLater, `check` is what the caller may listen to, or forget. Without a Desk the password is checked at once.
  /// Precondition: use() was called.
  AuthResult check(const Fields& fields, PasswordCheck*& check);
  /// After kRefused, and after a check that came to nothing: the value of WWW-Authenticate (RFC 7617 section 2).
  std::string_view challenge() const { return challenge_; }

 private:
  friend class PasswordCheck;
  AuthResult remember(const SecretDigest& digest, bool fits);

  const std::string challenge_;
  HelperThreads& threads_;
  const Users* users_ = nullptr;
  TokenCache cache_;
  size_t checks_ = 0;
  uint32_t generation_ = 0;  // Of the users.
};

}  // namespace sluice
