#pragma once

#include <openssl/ssl.h>

#include <cstdint>
#include <mutex>
#include <utility>

namespace sluice {

/// The SSL_CTX that new connections begin with. It can be replaced while workers use it: those who took the old one
/// keep it as long as they need it. Asked once per connection.
class CurrentContext {
 public:
  struct Taken {
    bssl::UniquePtr<SSL_CTX> context;
    /// Which one it is: sessions of another one's connections are not for it. Counts from 0 again after 65,536, which
    /// is more than any of their connections lives to see.
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
