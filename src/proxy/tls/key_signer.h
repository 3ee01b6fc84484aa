#pragma once

#include <openssl/ssl.h>

#include <cstddef>
#include <cstdint>

#include "net/helper_threads.h"
#include "net/yielding_task.h"

namespace sluice {

/// Signs with RSA keys on its own threads. A signature with 2,048 bits takes 0.35 ms, for which a worker's other
/// connections would have to wait. (ECDSA takes 0.03 ms, too little to be worth a trip to another thread.) Signatures
/// return to the worker through its Desk.
class KeySigner {
 public:
  using Desk = HelperThreads::Desk;

  /// `threads` is the number of threads. They start with the first key.
  explicit KeySigner(unsigned threads) : threads_(threads) {}
  KeySigner(const KeySigner&) = delete;
  KeySigner& operator=(const KeySigner&) = delete;

  /// Makes `credential` sign with `key`, its private key, on this signer's threads. The signer must outlive the
  /// credential's connections.
  void sign_for(SSL_CREDENTIAL* credential, bssl::UniquePtr<EVP_PKEY> key);

  /// Has `step` queued whenever a signature for `ssl` is ready. Without this call, or on a thread without a Desk, `ssl`
  /// signs synchronously. `step` must outlive `ssl`.
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
