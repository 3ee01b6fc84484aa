#pragma once

#include <openssl/ssl.h>

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "net/slow_work.h"
#include "net/worker.h"

namespace sluice {

/// Threads that sign with RSA keys: 0.35 ms for 2,048 bits, for which a worker's other connections would wait. (ECDSA
/// takes 0.03 ms, not worth the way to another thread and back.) They run at a lower priority than workers.
///
/// Used from several workers; each has a Desk, to which signatures come back.
class KeySigner {
 public:
  /// `threads` are started when the first key is given.
  explicit KeySigner(unsigned threads);
  ~KeySigner();
  KeySigner(const KeySigner&) = delete;
  KeySigner& operator=(const KeySigner&) = delete;

  /// Has `credential`, whose key is `key`, sign here. The signer must outlive the credential's connections.
  void sign_for(SSL_CREDENTIAL* credential, bssl::UniquePtr<EVP_PKEY> key);

  /// Queues `step` when what `ssl` waits for is signed. Without this, and on a thread without a Desk, it signs at once.
  static void wake(SSL* ssl, SlowWork& step);

  struct Job;
  struct Returns;

  /// Where a worker gets its signatures back: made and destroyed on its thread, as the only one, outliving its sessions
  /// but not the worker.
  class Desk {
   public:
    explicit Desk(Worker& worker);
    ~Desk();
    Desk(const Desk&) = delete;
    Desk& operator=(const Desk&) = delete;

   private:
    std::shared_ptr<Returns> returns_;
  };

 private:
  friend struct Job;
  void enqueue(std::unique_ptr<Job> job);
  void run();

  static ssl_private_key_result_t sign(SSL* ssl, uint8_t* out, size_t* out_size, size_t max_out, uint16_t algorithm,
                                       const uint8_t* in, size_t in_size);
  static ssl_private_key_result_t complete(SSL* ssl, uint8_t* out, size_t* out_size, size_t max_out);
  static const SSL_PRIVATE_KEY_METHOD kMethod;

  const unsigned thread_count_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::unique_ptr<Job>> jobs_;
  bool stopping_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace sluice
