#pragma once

#include <openssl/ssl.h>

#include <cstdint>
#include <mutex>
#include <utility>

namespace sluice {

/// The SSL_CTX for new connections. Thread-safe: it can be replaced while workers use it, and a connection that took
/// the old one keeps a reference to it. It is taken once per connection.
class CurrentContext {
 public:
  struct Taken {
    bssl::UniquePtr<SSL_CTX> context;
    /// The number of this context. Sessions of connections with another number must not be used with it. It wraps after
    /// 65,536 replacements, more than any connection outlives.
    uint16_t generation;
  };

  void replace(bssl::UniquePtr<SSL_CTX> context) {
    const std::lock_guard lock(mutex_);
    context_.swap(context);
    ++generation_;
  }
  Taken take() const {
    const std::lock_guard lock(mutex_);
    return {bssl::UpRef(context_), generation_};
  }

 private:
  mutable std::mutex mutex_;
  bssl::UniquePtr<SSL_CTX> context_;
  uint16_t generation_ = 0;
};

}  // namespace sluice
