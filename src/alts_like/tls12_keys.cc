#include "alts_like/tls12_keys.h"

#include <openssl/mem.h>

#include <algorithm>

#include "sluice/internal/check.h"

namespace sluice {

namespace {

const EVP_AEAD* aead_of(Tls12Cipher cipher) {
  switch (cipher) {
    case Tls12Cipher::kAes128Gcm:
      return EVP_aead_aes_128_gcm();
    case Tls12Cipher::kAes256Gcm:
      return EVP_aead_aes_256_gcm();
    case Tls12Cipher::kChaCha20Poly1305:
      break;
  }
  return EVP_aead_chacha20_poly1305();
}

std::array<uint8_t, 8> bytes_of(uint64_t sequence) {
  std::array<uint8_t, 8> bytes;
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<uint8_t>(sequence >> (56 - 8 * i));
  return bytes;
}

}  // namespace

Tls12Secret::~Tls12Secret() {
  OPENSSL_cleanse(key.data(), key.size());
  OPENSSL_cleanse(iv.data(), iv.size());
}

std::array<uint8_t, Tls12Keys::kMaxExplicitBytes> Tls12Keys::next_explicit() const {
  return bytes_of(secret_.sequence);
}

Tls12Keys::AeadInputs Tls12Keys::next(std::span<const CRYPTO_IOVEC> pieces, uint8_t type,
                                      std::span<const uint8_t> explicit_nonce) {
  SLUICE_CHECK(!exhausted() && explicit_nonce.size() == explicit_bytes());
  if (!context_) context_.make(aead_of(secret_.cipher), std::span(secret_.key).first(secret_.key_bytes()), secret_.iv);
  const std::array<uint8_t, 8> sequence = bytes_of(secret_.sequence++);
  AeadInputs inputs{.nonce = context_.iv(), .authenticated = {}};
  if (is_chacha()) {
    for (size_t i = 0; i < sequence.size(); ++i) inputs.nonce[4 + i] ^= sequence[i];  // RFC 7905 section 2.
  } else {
    std::copy(explicit_nonce.begin(), explicit_nonce.end(), inputs.nonce.end() - kMaxExplicitBytes);
  }
  // The sequence number, and the header with the size of the content (RFC 5246 section 6.2.3.3).
  size_t bytes = 0;
  for (const CRYPTO_IOVEC& piece : pieces) bytes += piece.len;
  const TlsHeader header = TlsHeader::of(type, bytes);
  std::copy(header.bytes.begin(), header.bytes.end(),
            std::copy(sequence.begin(), sequence.end(), inputs.authenticated.begin()));
  return inputs;
}

bool Tls12Keys::open(std::span<const CRYPTO_IOVEC> pieces, uint8_t type, std::span<const uint8_t> explicit_nonce,
                     std::span<const uint8_t> tag) {
  const AeadInputs inputs = next(pieces, type, explicit_nonce);
  return context_.open(pieces, inputs.nonce, inputs.authenticated, tag);
}

void Tls12Keys::seal(std::span<const CRYPTO_IOVEC> pieces, uint8_t type, uint8_t* tag) {
  const auto explicit_nonce = next_explicit();
  const AeadInputs inputs = next(pieces, type, std::span(explicit_nonce).first(explicit_bytes()));
  context_.seal(pieces, inputs.nonce, inputs.authenticated, tag);
}

}  // namespace sluice
