#include "proxy/tls/ticket_keys.h"

#include <openssl/cipher.h>
#include <openssl/digest.h>
#include <openssl/hmac.h>
#include <openssl/mem.h>
#include <openssl/rand.h>
#include <openssl/ssl.h>
#include <time.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <span>

#include "absl/strings/str_cat.h"
#include "proxy/common/read_file.h"

namespace sluice {

namespace {

constexpr int64_t kRenewSeconds = int64_t{24} * 3600;
constexpr size_t kKeysKept = 3;

int64_t now_s() {
  timespec now{};
  clock_gettime(CLOCK_BOOTTIME, &now);
  return now.tv_sec;
}

}  // namespace

TicketKeys::TicketKeys() : renewed_(true) {}

TicketKeys::~TicketKeys() { OPENSSL_cleanse(keys_.data(), keys_.size() * sizeof(Key)); }

absl::StatusOr<std::unique_ptr<TicketKeys>> TicketKeys::read(const std::vector<std::string>& files) {
  std::vector<Key> keys(files.size());
  for (size_t i = 0; i < files.size(); ++i) {
    static_assert(sizeof(Key) == kFileBytes);
    const absl::StatusOr<SecretBytes> text = read_secret_file(files[i]);
    if (!text.ok()) return text.status();
    if (text->size() != kFileBytes) {
      return absl::InvalidArgumentError(absl::StrCat(files[i], ": expected ", kFileBytes, " random bytes, got ",
                                                     text->size(), "; make it with `openssl rand ", kFileBytes, "`"));
    }
    std::memcpy(&keys[i], text->data(), kFileBytes);
  }
  return std::unique_ptr<TicketKeys>(new TicketKeys(std::move(keys)));
}

void TicketKeys::renew_if_due() {
  const int64_t now = now_s();
  if (!renewed_ || (!keys_.empty() && now < made_s_ + kRenewSeconds)) return;
  Key fresh;
  RAND_bytes(reinterpret_cast<uint8_t*>(&fresh), sizeof fresh);
  keys_.reserve(kKeysKept + 1);  // A reallocation would leave keys behind in freed memory.
  keys_.insert(keys_.begin(), fresh);
  OPENSSL_cleanse(&fresh, sizeof fresh);
  if (keys_.size() > kKeysKept) {
    OPENSSL_cleanse(&keys_.back(), sizeof(Key));
    keys_.pop_back();
  }
  made_s_ = now;
}

int TicketKeys::seal(uint8_t* name, uint8_t* iv, EVP_CIPHER_CTX* cipher, HMAC_CTX* hmac) {
  const std::lock_guard lock(mutex_);
  renew_if_due();
  const Key& key = keys_.front();
  std::memcpy(name, key.name.data(), key.name.size());
  RAND_bytes(iv, EVP_CIPHER_iv_length(EVP_aes_256_cbc()));
  const bool done = EVP_EncryptInit_ex(cipher, EVP_aes_256_cbc(), nullptr, key.aes.data(), iv) &&
                    HMAC_Init_ex(hmac, key.hmac.data(), key.hmac.size(), EVP_sha256(), nullptr);
  return done ? 1 : -1;
}

int TicketKeys::open(const uint8_t* name, const uint8_t* iv, EVP_CIPHER_CTX* cipher, HMAC_CTX* hmac) {
  const std::lock_guard lock(mutex_);
  renew_if_due();
  const auto key = std::find_if(keys_.begin(), keys_.end(),
                                [&](const Key& k) { return std::memcmp(k.name.data(), name, k.name.size()) == 0; });
  if (key == keys_.end()) return 0;
  const bool done = EVP_DecryptInit_ex(cipher, EVP_aes_256_cbc(), nullptr, key->aes.data(), iv) &&
                    HMAC_Init_ex(hmac, key->hmac.data(), key->hmac.size(), EVP_sha256(), nullptr);
  if (!done) return -1;
  return key == keys_.begin() ? 1 : 2;
}

void TicketKeys::write(StateWriter& out) {
  const std::lock_guard lock(mutex_);
  renew_if_due();
  out.u64(static_cast<uint64_t>(made_s_));
  out.u8(static_cast<uint8_t>(keys_.size()));
  for (const Key& key : keys_) out.bytes({reinterpret_cast<const uint8_t*>(&key), sizeof key});
}

bool TicketKeys::take_over(StateReader& in) {
  const auto made_s = static_cast<int64_t>(in.u64());
  const size_t count = in.u8();
  const std::span<const uint8_t> bytes = in.bytes(count * sizeof(Key));
  if (!in.done() || count == 0 || count > kKeysKept || made_s > now_s()) return false;
  const std::lock_guard lock(mutex_);
  OPENSSL_cleanse(keys_.data(), keys_.size() * sizeof(Key));
  keys_.reserve(kKeysKept + 1);
  keys_.resize(count);
  std::memcpy(keys_.data(), bytes.data(), bytes.size());
  made_s_ = made_s;
  return true;
}

void TicketKeys::age(int64_t seconds) {
  const std::lock_guard lock(mutex_);
  made_s_ -= seconds;
}

}  // namespace sluice
