#include "alts_like/tls13_keys.h"

#include <openssl/digest.h>
#include <openssl/hkdf.h>
#include <openssl/mem.h>

#include <algorithm>
#include <string_view>

#include "sluice/internal/check.h"

namespace sluice {

namespace {

const EVP_MD* hash_of(Tls13Cipher cipher) { return cipher == Tls13Cipher::kAes256Gcm ? EVP_sha384() : EVP_sha256(); }

const EVP_AEAD* aead_of(Tls13Cipher cipher) {
  switch (cipher) {
    case Tls13Cipher::kAes128Gcm:
      return EVP_aead_aes_128_gcm();
    case Tls13Cipher::kAes256Gcm:
      return EVP_aead_aes_256_gcm();
    case Tls13Cipher::kChaCha20Poly1305:
      break;
  }
  return EVP_aead_chacha20_poly1305();
}

// HKDF-Expand-Label with an empty context (RFC 8446 section 7.1).
void expand_label(const Tls13Secret& secret, std::string_view label, std::span<uint8_t> to) {
  constexpr std::string_view kPrefix = "tls13 ";
  std::array<uint8_t, 32> info{};
  size_t size = 0;
  info[size++] = static_cast<uint8_t>(to.size() >> 8);
  info[size++] = static_cast<uint8_t>(to.size());
  info[size++] = static_cast<uint8_t>(kPrefix.size() + label.size());
  for (const std::string_view part : {kPrefix, label}) {
    for (const char c : part) info[size++] = static_cast<uint8_t>(c);
  }
  info[size++] = 0;
  SLUICE_CHECK(HKDF_expand(to.data(), to.size(), hash_of(secret.cipher), secret.bytes.data(), secret.size, info.data(),
                           size) == 1);
}

}  // namespace

std::optional<Tls13Secret> Tls13Secret::from(Tls13Cipher cipher, std::span<const uint8_t> secret, uint64_t sequence) {
  if (secret.size() != EVP_MD_size(hash_of(cipher))) return std::nullopt;
  Tls13Secret result{.cipher = cipher, .size = static_cast<uint8_t>(secret.size()), .bytes = {}, .sequence = sequence};
  std::copy(secret.begin(), secret.end(), result.bytes.begin());
  return result;
}

Tls13Secret::~Tls13Secret() { OPENSSL_cleanse(bytes.data(), bytes.size()); }

// Makes the context if necessary and returns the next record's nonce (RFC 8446 section 5.3).
AeadContext::Nonce Tls13Keys::next_nonce() {
  SLUICE_CHECK(!exhausted());
  if (!context_) {
    const EVP_AEAD* aead = aead_of(secret_.cipher);
    std::array<uint8_t, EVP_AEAD_MAX_KEY_LENGTH> key;
    const size_t key_bytes = EVP_AEAD_key_length(aead);
    AeadContext::Nonce iv;
    expand_label(secret_, "key", std::span(key).first(key_bytes));
    expand_label(secret_, "iv", iv);
    context_.make(aead, std::span(key).first(key_bytes), iv);
    OPENSSL_cleanse(key.data(), key.size());
    OPENSSL_cleanse(iv.data(), iv.size());
  }
  AeadContext::Nonce nonce = context_.iv();
  for (size_t i = 0; i < 8; ++i) nonce[4 + i] ^= static_cast<uint8_t>(secret_.sequence >> (56 - 8 * i));
  ++secret_.sequence;
  return nonce;
}

bool Tls13Keys::open(std::span<const CRYPTO_IOVEC> pieces, std::span<const uint8_t> header,
                     std::span<const uint8_t> tag) {
  const AeadContext::Nonce nonce = next_nonce();
  return context_.open(pieces, nonce, header, tag);
}

void Tls13Keys::seal(std::span<const CRYPTO_IOVEC> pieces, std::span<const uint8_t> header, uint8_t* tag) {
  const AeadContext::Nonce nonce = next_nonce();
  context_.seal(pieces, nonce, header, tag);
}

void Tls13Keys::update() {
  std::array<uint8_t, Tls13Secret::kMaxBytes> next;
  expand_label(secret_, "traffic upd", std::span(next).first(secret_.size));
  std::copy_n(next.begin(), secret_.size, secret_.bytes.begin());
  OPENSSL_cleanse(next.data(), next.size());
  secret_.sequence = 0;
  park();
}

}  // namespace sluice
