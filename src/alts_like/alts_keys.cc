#include "alts_like/alts_keys.h"

#include <openssl/digest.h>
#include <openssl/hkdf.h>
#include <openssl/mem.h>

#include <algorithm>

#include "sluice/internal/check.h"

namespace sluice {

namespace {

// With rekeying, the secret consists of a key from which AES keys are derived, and a mask for nonces.
constexpr size_t kDerivationKeyBytes = 32;
// The part of the counter from which a key is derived. It changes every 65,536 frames.
constexpr size_t kKeyCounterAt = 2;
constexpr size_t kKeyCounterBytes = 6;

// The number of low bytes of a counter that are incremented.
constexpr size_t counting_bytes(AltsProtocol protocol) { return protocol == AltsProtocol::kAes128Gcm ? 5 : 8; }

}  // namespace

AltsCounter AltsCounter::first(bool from_server) {
  AltsCounter counter;
  counter.bytes.back() = from_server ? 0x80 : 0;
  return counter;
}

void AltsCounter::increment(AltsProtocol protocol) {
  SLUICE_CHECK(!exhausted);
  for (size_t i = 0; i < counting_bytes(protocol); ++i) {
    if (++bytes[i] != 0) return;
  }
  exhausted = true;
}

AltsKeys::AesKey AltsKeys::derive(const Secret& secret, const AltsCounter& counter) {
  AesKey key;
  SLUICE_CHECK(HKDF_expand(key.data(), key.size(), EVP_sha256(), secret.data(), kDerivationKeyBytes,
                           counter.bytes.data() + kKeyCounterAt, kKeyCounterBytes) == 1);
  return key;
}

AltsKeys::~AltsKeys() { OPENSSL_cleanse(secret_.data(), secret_.size()); }

void AltsKeys::park() {
  read_.context.drop();
  write_.context.drop();
}

// Makes the context if necessary and returns the next frame's nonce.
AeadContext::Nonce AltsKeys::ready(Direction& direction) {
  AltsCounter& counter = direction.counter;
  SLUICE_CHECK(!counter.exhausted);
  if (!direction.context) {
    if (protocol_ == AltsProtocol::kAes128Gcm) {
      direction.context.make(EVP_aead_aes_128_gcm(), std::span(secret_).first(secret_bytes(protocol_)), {});
    } else {
      AesKey key = derive(secret_, counter);
      AeadContext::Nonce mask;
      std::copy(secret_.begin() + kDerivationKeyBytes, secret_.end(), mask.begin());
      direction.context.make(EVP_aead_aes_128_gcm(), key, mask);
      OPENSSL_cleanse(key.data(), key.size());
    }
  }
  AeadContext::Nonce nonce = direction.context.iv();
  for (size_t i = 0; i < nonce.size(); ++i) nonce[i] ^= counter.bytes[i];
  return nonce;
}

void AltsKeys::count(Direction& direction) {
  AltsCounter& counter = direction.counter;
  counter.increment(protocol_);
  if (protocol_ == AltsProtocol::kAes128GcmRekey &&
      std::all_of(counter.bytes.begin(), counter.bytes.begin() + kKeyCounterAt, [](uint8_t b) { return b == 0; })) {
    direction.context.drop();
  }
}

bool AltsKeys::open(std::span<const CRYPTO_IOVEC> pieces, std::span<const uint8_t> tag,
                    std::span<const uint8_t> authenticated) {
  const AeadContext::Nonce nonce = ready(read_);
  if (!read_.context.open(pieces, nonce, authenticated, tag)) return false;
  count(read_);
  return true;
}

void AltsKeys::seal(std::span<const CRYPTO_IOVEC> pieces, uint8_t* tag, std::span<const uint8_t> authenticated) {
  const AeadContext::Nonce nonce = ready(write_);
  write_.context.seal(pieces, nonce, authenticated, tag);
  count(write_);
}

}  // namespace sluice
