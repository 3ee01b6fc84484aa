#pragma once

#include <openssl/ssl.h>

#include <cstddef>
#include <cstdint>

#include "net/helper_threads.h"
#include "net/yielding_task.h"

namespace sluice {

/// Signs with RSA keys on threads of its own: 0.35 ms for 2,048 bits, for which a worker's other connections would
/// wait. (ECDSA takes 0.03 ms, not worth the way to another thread and back.) What is signed comes back to a worker's
/// Desk.
class KeySigner {
 public:
  using Desk = HelperThreads::Desk;

  /// `threads` are started when the first key is given.
  explicit KeySigner(unsigned threads) : threads_(threads) {}
  KeySigner(const KeySigner&) = delete;
  KeySigner& operator=(const KeySigner&) = delete;

  /// Has `credential`, whose key is `key`, sign here. The signer must outlive the credential's connections.
  void sign_for(SSL_CREDENTIAL* credential, bssl::UniquePtr<EVP_PKEY> key);

  /// Queues `step` when what `ssl` waits for is signed. Without this, and on a thread without a Desk, it signs at once.
  static void wake(SSL* ssl, YieldingTask& step);

 private:
  class Job;

  static ssl_private_key_result_t sign(SSL* ssl, uint8_t* out, size_t* out_size, size_t max_out, uint16_t algorithm,
                                       const uint8_t* in, size_t in_size);
  static ssl_private_key_result_t complete(SSL* ssl, uint8_t* out, size_t* out_size, size_t max_out);
  static const SSL_PRIVATE_KEY_METHOD kMethod;

  HelperThreads threads_;
};

}  // namespace sluice
