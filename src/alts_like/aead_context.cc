#include "alts_like/aead_context.h"

#include <openssl/mem.h>

#include <new>
#include <utility>

#include "sluice/chunk_pool.h"
#include "sluice/internal/check.h"

namespace sluice {

void AeadContext::make(const EVP_AEAD* aead, std::span<const uint8_t> key, const Nonce& iv) {
  SLUICE_CHECK(!held_);
  ChunkPool* pool = ChunkPool::current();
  Chunk* chunk = pool ? pool->get_metadata(sizeof(Held)) : heap_chunk(sizeof(Held));
  held_ = new (chunk->data) Held{.chunk = chunk, .aead = {}, .iv = iv};
  // The cipher context does not check nonces; the caller must keep them unique.
  SLUICE_CHECK(EVP_AEAD_CTX_init(held_->aead.get(), aead, key.data(), key.size(), kTagBytes, nullptr) == 1);
}

void AeadContext::drop() {
  if (!held_) return;
  Chunk* const chunk = held_->chunk;
  held_->~Held();
  OPENSSL_cleanse(held_, sizeof(Held));
  held_ = nullptr;
  chunk_unref(chunk);
}

bool AeadContext::open(std::span<const CRYPTO_IOVEC> pieces, const Nonce& nonce, std::span<const uint8_t> authenticated,
                       std::span<const uint8_t> tag) const {
  const CRYPTO_IVEC additional{authenticated.data(), authenticated.size()};
  return EVP_AEAD_CTX_openv_detached(held_->aead.get(), pieces.data(), pieces.size(), nonce.data(), nonce.size(),
                                     tag.data(), tag.size(), &additional, authenticated.empty() ? 0 : 1) == 1;
}

void AeadContext::seal(std::span<const CRYPTO_IOVEC> pieces, const Nonce& nonce, std::span<const uint8_t> authenticated,
                       uint8_t* tag) const {
  const CRYPTO_IVEC additional{authenticated.data(), authenticated.size()};
  size_t tag_bytes = 0;
  SLUICE_CHECK(EVP_AEAD_CTX_sealv(held_->aead.get(), pieces.data(), pieces.size(), tag, &tag_bytes, kTagBytes,
                                  nonce.data(), nonce.size(), &additional, authenticated.empty() ? 0 : 1) == 1 &&
               tag_bytes == kTagBytes);
}

}  // namespace sluice
