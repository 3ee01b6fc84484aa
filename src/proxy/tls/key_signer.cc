#include "proxy/tls/key_signer.h"

#include <openssl/digest.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/rsa.h>

#include <cstring>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "sluice/internal/check.h"

namespace sluice {

namespace {

// A credential's key and its signer, stored in the SSL_CREDENTIAL.
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

// One signature. The job belongs to the signer's threads until it is done, then to the connection.
class KeySigner::Job final : public HelperThreads::Job {
 public:
  Job(bssl::UniquePtr<EVP_PKEY> key, uint16_t algorithm, std::span<const uint8_t> message, YieldingTask& step)
      : key_(std::move(key)), algorithm_(algorithm), message_(message.begin(), message.end()), step_(&step) {}

  void run() override {
    if (!sign_now(key_.get(), algorithm_, message_, signature_)) signature_.clear();
    ERR_clear_error();
  }
  void finish(Worker& worker, std::unique_ptr<HelperThreads::Job> self) override {
    if (!step_) return;
    done_ = true;
    (void)self.release();
    worker.yielding_tasks().push(*step_);
  }

  bool done() const { return done_; }
  /// Empty if signing failed.
  const std::vector<uint8_t>& signature() const { return signature_; }

  /// The index of the job in an SSL object.
  static int place() {
    static const int index =
        SSL_get_ex_new_index(0, nullptr, nullptr, nullptr, [](void*, void* job, CRYPTO_EX_DATA*, int, long, void*) {
          if (!job) return;
          auto* const left = static_cast<Job*>(job);
          left->done_ ? delete left : void(left->step_ = nullptr);
        });
    return index;
  }

 private:
  // Used by the signing thread while the job runs.
  bssl::UniquePtr<EVP_PKEY> key_;
  uint16_t algorithm_;
  std::vector<uint8_t> message_;
  std::vector<uint8_t> signature_;
  // Used by the worker.
  YieldingTask* step_;  // Null: the connection was destroyed.
  bool done_ = false;
};

const SSL_PRIVATE_KEY_METHOD KeySigner::kMethod = {
    &KeySigner::sign,
    // decrypt() is only for RSA key exchange, which is not offered.
    [](SSL*, uint8_t*, size_t*, size_t, const uint8_t*, size_t) { return ssl_private_key_failure; },
    &KeySigner::complete,
};

void KeySigner::sign_for(SSL_CREDENTIAL* credential, bssl::UniquePtr<EVP_PKEY> key) {
  SLUICE_CHECK(SSL_CREDENTIAL_set_ex_data(credential, key_place(), new SlowKey{std::move(key), this}) == 1);
  SLUICE_CHECK(SSL_CREDENTIAL_set_private_key_method(credential, &kMethod) == 1);
  threads_.start();
}

void KeySigner::wake(SSL* ssl, YieldingTask& step) { SLUICE_CHECK(SSL_set_ex_data(ssl, step_place(), &step) == 1); }

ssl_private_key_result_t KeySigner::sign(SSL* ssl, uint8_t* out, size_t* out_size, size_t max_out, uint16_t algorithm,
                                         const uint8_t* in, size_t in_size) {
  const auto& key = *static_cast<SlowKey*>(SSL_CREDENTIAL_get_ex_data(SSL_get0_selected_credential(ssl), key_place()));
  auto* const step = static_cast<YieldingTask*>(SSL_get_ex_data(ssl, step_place()));
  if (!step || !HelperThreads::has_desk()) {
    std::vector<uint8_t> signature;
    if (!sign_now(key.key.get(), algorithm, {in, in_size}, signature)) return ssl_private_key_failure;
    return give(signature, out, out_size, max_out);
  }
  auto job = std::make_unique<Job>(bssl::UpRef(key.key), algorithm, std::span(in, in_size), *step);
  SLUICE_CHECK(SSL_set_ex_data(ssl, Job::place(), job.get()) == 1);
  key.signer->threads_.give(std::move(job));
  return ssl_private_key_retry;
}

ssl_private_key_result_t KeySigner::complete(SSL* ssl, uint8_t* out, size_t* out_size, size_t max_out) {
  auto* const job = static_cast<Job*>(SSL_get_ex_data(ssl, Job::place()));
  if (!job->done()) return ssl_private_key_retry;
  const std::unique_ptr<Job> owned(job);
  SSL_set_ex_data(ssl, Job::place(), nullptr);
  return job->signature().empty() ? ssl_private_key_failure : give(job->signature(), out, out_size, max_out);
}

}  // namespace sluice
