#include "proxy/tls/key_signer.h"

#include <openssl/digest.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/rsa.h>
#include <sys/resource.h>

#include <algorithm>
#include <cstring>
#include <span>
#include <utility>

#include "pool/check.h"

namespace sluice {

namespace {

// Behind the workers, and before what has no hurry at all.
constexpr int kNice = 5;

// What a credential has: its key, and who signs with it.
struct SlowKey {
  bssl::UniquePtr<EVP_PKEY> key;
  KeySigner* signer;
};

int key_place() {
  static const int index = SSL_CREDENTIAL_get_ex_new_index(
      0, nullptr, nullptr, nullptr,
      [](void*, void* key, CRYPTO_EX_DATA*, int, long, void*) { delete static_cast<SlowKey*>(key); });
  return index;
}

int step_place() {
  static const int index = SSL_get_ex_new_index(0, nullptr, nullptr, nullptr, nullptr);
  return index;
}

bool sign_now(EVP_PKEY* key, uint16_t algorithm, std::span<const uint8_t> in, std::vector<uint8_t>& out) {
  bssl::ScopedEVP_MD_CTX context;
  EVP_PKEY_CTX* options = nullptr;
  if (!EVP_DigestSignInit(context.get(), &options, SSL_get_signature_algorithm_digest(algorithm), nullptr, key)) {
    return false;
  }
  // The salt is as long as the digest (RFC 8446 section 4.2.3).
  if (SSL_is_signature_algorithm_rsa_pss(algorithm) &&
      (!EVP_PKEY_CTX_set_rsa_padding(options, RSA_PKCS1_PSS_PADDING) ||
       !EVP_PKEY_CTX_set_rsa_pss_saltlen(options, RSA_PSS_SALTLEN_DIGEST))) {
    return false;
  }
  auto size = static_cast<size_t>(EVP_PKEY_size(key));
  out.resize(size);
  if (!EVP_DigestSign(context.get(), out.data(), &size, in.data(), in.size())) return false;
  out.resize(size);
  return true;
}

ssl_private_key_result_t give(const std::vector<uint8_t>& signature, uint8_t* out, size_t* out_size, size_t max_out) {
  if (signature.size() > max_out) return ssl_private_key_failure;
  std::memcpy(out, signature.data(), signature.size());
  *out_size = signature.size();
  return ssl_private_key_success;
}

}  // namespace

struct KeySigner::Job {
  // Of the signing thread, once it is queued.
  bssl::UniquePtr<EVP_PKEY> key;
  uint16_t algorithm = 0;
  std::vector<uint8_t> message;
  std::vector<uint8_t> signature;  // Empty if signing failed.
  std::shared_ptr<Returns> returns;
  // Of the worker.
  SlowWork* step = nullptr;  // Null: the connection has gone.
  bool done = false;         // It belongs to the connection then, before that to the signer.

  static int place() {
    static const int index =
        SSL_get_ex_new_index(0, nullptr, nullptr, nullptr, [](void*, void* job, CRYPTO_EX_DATA*, int, long, void*) {
          if (!job) return;
          auto* const left = static_cast<Job*>(job);
          left->done ? delete left : void(left->step = nullptr);
        });
    return index;
  }
};

struct KeySigner::Returns : Message, std::enable_shared_from_this<Returns> {
  static inline constinit thread_local Returns* current = nullptr;

  std::mutex mutex;
  Worker* worker = nullptr;  // Null: it has ended.
  std::vector<std::unique_ptr<Job>> jobs;
  bool posted = false;

  // From a signing thread.
  void put(std::unique_ptr<Job> job) {
    const std::lock_guard lock(mutex);
    if (!worker) return;
    jobs.push_back(std::move(job));
    if (!std::exchange(posted, true)) worker->post(*this);
  }
  // On the worker.
  void take() {
    std::vector<std::unique_ptr<Job>> taken;
    {
      const std::lock_guard lock(mutex);
      taken.swap(jobs);
      posted = false;
    }
    for (std::unique_ptr<Job>& job : taken) {
      if (!job->step) continue;
      job->done = true;
      worker->slow_work().push(*job.release()->step);
    }
  }
};

KeySigner::Desk::Desk(Worker& worker) : returns_(std::make_shared<Returns>()) {
  SLUICE_CHECK(Returns::current == nullptr);
  returns_->worker = &worker;
  returns_->run = [](Message& message, Worker&) { static_cast<Returns&>(message).take(); };
  Returns::current = returns_.get();
}

KeySigner::Desk::~Desk() {
  Returns::current = nullptr;
  const std::lock_guard lock(returns_->mutex);
  returns_->worker = nullptr;
  returns_->jobs.clear();
}

const SSL_PRIVATE_KEY_METHOD KeySigner::kMethod = {
    &KeySigner::sign,
    // Only for key exchange by RSA, which is not offered.
    [](SSL*, uint8_t*, size_t*, size_t, const uint8_t*, size_t) { return ssl_private_key_failure; },
    &KeySigner::complete,
};

KeySigner::KeySigner(unsigned threads) : thread_count_(threads) {}

KeySigner::~KeySigner() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void KeySigner::sign_for(SSL_CREDENTIAL* credential, bssl::UniquePtr<EVP_PKEY> key) {
  SLUICE_CHECK(SSL_CREDENTIAL_set_ex_data(credential, key_place(), new SlowKey{std::move(key), this}) == 1);
  SLUICE_CHECK(SSL_CREDENTIAL_set_private_key_method(credential, &kMethod) == 1);
  const std::lock_guard lock(mutex_);
  while (threads_.size() < thread_count_) threads_.emplace_back([this] { run(); });
}

void KeySigner::wake(SSL* ssl, SlowWork& step) { SLUICE_CHECK(SSL_set_ex_data(ssl, step_place(), &step) == 1); }

void KeySigner::enqueue(std::unique_ptr<Job> job) {
  const std::lock_guard lock(mutex_);
  jobs_.push_back(std::move(job));
  changed_.notify_one();
}

void KeySigner::run() {
  setpriority(PRIO_PROCESS, 0, kNice);  // Of this thread, on Linux.
  SLUICE_CHECK(Worker::prepare_to_post().ok());
  for (;;) {
    std::unique_ptr<Job> job;
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return stopping_ || !jobs_.empty(); });
      if (stopping_) return;
      job = std::move(jobs_.front());
      jobs_.pop_front();
    }
    if (!sign_now(job->key.get(), job->algorithm, job->message, job->signature)) job->signature.clear();
    ERR_clear_error();
    Returns& returns = *job->returns;
    const std::shared_ptr<Returns> alive = job->returns;
    returns.put(std::move(job));
  }
}

ssl_private_key_result_t KeySigner::sign(SSL* ssl, uint8_t* out, size_t* out_size, size_t max_out, uint16_t algorithm,
                                         const uint8_t* in, size_t in_size) {
  const auto& key = *static_cast<SlowKey*>(SSL_CREDENTIAL_get_ex_data(SSL_get0_selected_credential(ssl), key_place()));
  auto* const step = static_cast<SlowWork*>(SSL_get_ex_data(ssl, step_place()));
  if (!step || !Returns::current) {
    std::vector<uint8_t> signature;
    if (!sign_now(key.key.get(), algorithm, {in, in_size}, signature)) return ssl_private_key_failure;
    return give(signature, out, out_size, max_out);
  }
  auto job = std::make_unique<Job>();
  job->key = bssl::UpRef(key.key);
  job->algorithm = algorithm;
  job->message.assign(in, in + in_size);
  job->returns = Returns::current->shared_from_this();
  job->step = step;
  SLUICE_CHECK(SSL_set_ex_data(ssl, Job::place(), job.get()) == 1);
  key.signer->enqueue(std::move(job));
  return ssl_private_key_retry;
}

ssl_private_key_result_t KeySigner::complete(SSL* ssl, uint8_t* out, size_t* out_size, size_t max_out) {
  auto* const job = static_cast<Job*>(SSL_get_ex_data(ssl, Job::place()));
  if (!job->done) return ssl_private_key_retry;
  const std::unique_ptr<Job> owned(job);
  SSL_set_ex_data(ssl, Job::place(), nullptr);
  return job->signature.empty() ? ssl_private_key_failure : give(job->signature, out, out_size, max_out);
}

}  // namespace sluice
