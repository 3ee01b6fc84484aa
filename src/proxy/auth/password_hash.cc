#include "proxy/auth/password_hash.h"

#include <crypt.h>
#include <openssl/md5.h>
#include <openssl/mem.h>
#include <openssl/sha.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "proxy/common/base64.h"

namespace sluice {
namespace {

constexpr std::string_view kSha = "{SHA}", kSaltedSha = "{SSHA}", kApacheMd5 = "$apr1$", kSha256 = "$5$",
                           kSha512 = "$6$", kYescrypt = "$y$", kRounds = "rounds=";
constexpr std::string_view kBcrypt[] = {"$2y$", "$2b$", "$2a$"};

// A bcrypt cost of 14 takes 0.8 s, and this number of SHA-512 rounds takes 0.3 s.
constexpr uint32_t kMaxBcryptCost = 14, kMaxShaRounds = 1'000'000;
constexpr size_t kBcryptBytes = 60, kMaxHashBytes = 256, kMaxSaltBytes = 64;

bool is_bcrypt(std::string_view hash) {
  return std::any_of(std::begin(kBcrypt), std::end(kBcrypt), [&](auto prefix) { return hash.starts_with(prefix); });
}

bool is_sha_crypt(std::string_view hash) { return hash.starts_with(kSha256) || hash.starts_with(kSha512); }

bool equal(std::string_view a, std::string_view b) {
  return a.size() == b.size() && CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

// Returns the digest followed by the salt.
std::optional<std::string_view> decode_sha(std::string_view hash, std::span<unsigned char> room) {
  const bool salted = hash.starts_with(kSaltedSha);
  hash.remove_prefix(salted ? kSaltedSha.size() : kSha.size());
  if (base64_room(hash.size()) > room.size()) return std::nullopt;
  const auto bytes = decode_base64(Base64::kPadded, hash, room);
  if (!bytes || bytes->size() < SHA_DIGEST_LENGTH + (salted ? 1 : 0)) return std::nullopt;
  if (bytes->size() > SHA_DIGEST_LENGTH + (salted ? kMaxSaltBytes : 0)) return std::nullopt;
  return std::string_view(reinterpret_cast<const char*>(bytes->data()), bytes->size());
}

bool fits_sha(std::string_view hash, std::string_view password) {
  std::array<unsigned char, 128> room;
  const std::optional<std::string_view> known = decode_sha(hash, room);
  if (!known) return false;
  const std::string_view salt = known->substr(SHA_DIGEST_LENGTH);
  SHA_CTX context;
  std::array<uint8_t, SHA_DIGEST_LENGTH> digest;
  SHA1_Init(&context);
  SHA1_Update(&context, password.data(), password.size());
  SHA1_Update(&context, salt.data(), salt.size());
  SHA1_Final(digest.data(), &context);
  return CRYPTO_memcmp(digest.data(), known->data(), digest.size()) == 0;
}

// Apache's variant of FreeBSD's MD5 crypt (apr_md5_encode in APR's crypto/apr_md5.c), the default of `htpasswd`.
class ApacheMd5 {
 public:
  ApacheMd5(std::string_view password, std::string_view salt) : password_(password), salt_(salt) {}

  std::string hash() {
    first_round();
    for (unsigned i = 0; i < 1000; ++i) round(i);
    return text();
  }

 private:
  using Digest = std::array<uint8_t, MD5_DIGEST_LENGTH>;

  void begin() { MD5_Init(&context_); }
  void add(std::string_view text) { MD5_Update(&context_, text.data(), text.size()); }
  void add_digest(size_t bytes = MD5_DIGEST_LENGTH) { MD5_Update(&context_, digest_.data(), bytes); }
  void end() { MD5_Final(digest_.data(), &context_); }

  void first_round() {
    begin();
    add(password_);
    add(salt_);
    add(password_);
    end();
    begin();
    add(password_);
    add(kApacheMd5);
    add(salt_);
    for (size_t left = password_.size(); left > 0; left -= std::min<size_t>(left, MD5_DIGEST_LENGTH)) {
      add_digest(std::min<size_t>(left, MD5_DIGEST_LENGTH));
    }
    for (size_t bits = password_.size(); bits > 0; bits >>= 1) {
      add((bits & 1) != 0 ? std::string_view("\0", 1) : password_.substr(0, 1));
    }
    end();
  }

  void round(unsigned i) {
    begin();
    (i & 1) != 0 ? add(password_) : add_digest();
    if (i % 3 != 0) add(salt_);
    if (i % 7 != 0) add(password_);
    (i & 1) != 0 ? add_digest() : add(password_);
    end();
  }

  std::string text() const {
    constexpr std::string_view kAlphabet = "./0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    std::string result = absl::StrCat(kApacheMd5, salt_, "$");
    const auto write = [&](uint32_t value, int characters) {
      for (; characters > 0; --characters, value >>= 6) result += kAlphabet[value & 0x3f];
    };
    for (size_t i = 0; i < 5; ++i) {
      write(uint32_t{digest_[i]} << 16 | uint32_t{digest_[i + 6]} << 8 | digest_[i == 4 ? 5 : i + 12], 4);
    }
    write(digest_[11], 2);
    return result;
  }

  std::string_view password_, salt_;
  MD5_CTX context_;
  Digest digest_{};
};

std::string_view apache_salt(std::string_view hash) {
  hash.remove_prefix(kApacheMd5.size());
  return hash.substr(0, hash.find('$'));
}

bool fits_crypt(std::string_view hash, std::string_view password) {
  static thread_local const std::unique_ptr<crypt_data> data = std::make_unique<crypt_data>();
  *data = crypt_data();
  const std::string setting(hash), key(password);
  const char* const made = crypt_r(key.c_str(), setting.c_str(), data.get());
  const bool fits = made && equal(made, hash);
  OPENSSL_cleanse(data.get(), sizeof(crypt_data));
  return fits;
}

absl::Status check_bcrypt(std::string_view hash) {
  uint32_t cost = 0;
  if (hash.size() != kBcryptBytes || hash[6] != '$' || !absl::SimpleAtoi(hash.substr(4, 2), &cost)) {
    return absl::InvalidArgumentError("expected a bcrypt hash of 60 characters, such as $2y$10$...");
  }
  if (cost > kMaxBcryptCost) {
    return absl::InvalidArgumentError(
        absl::StrCat("a bcrypt cost of ", cost, " takes too much processor time; the maximum is ", kMaxBcryptCost));
  }
  return absl::OkStatus();
}

absl::Status check_sha_crypt(std::string_view hash) {
  std::string_view rest = hash.substr(kSha256.size());
  if (!rest.starts_with(kRounds)) return absl::OkStatus();
  rest.remove_prefix(kRounds.size());
  uint32_t rounds = 0;
  if (!absl::SimpleAtoi(rest.substr(0, rest.find('$')), &rounds) || rounds > kMaxShaRounds) {
    return absl::InvalidArgumentError(absl::StrCat("expected at most ", kMaxShaRounds, " rounds"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status check_password_hash(std::string_view hash) {
  const auto plain = [](char c) { return c > ' ' && c < '\x7f'; };
  if (hash.size() > kMaxHashBytes || !std::all_of(hash.begin(), hash.end(), plain)) {
    return absl::InvalidArgumentError("expected a password hash of at most 256 visible ASCII characters");
  }
  if (hash.starts_with(kSha) || hash.starts_with(kSaltedSha)) {
    std::array<unsigned char, 256> room;
    return decode_sha(hash, room)
               ? absl::OkStatus()
               : absl::InvalidArgumentError("expected a SHA-1 digest in base64, with a salt for {SSHA}");
  }
  if (hash.starts_with(kApacheMd5)) {
    const std::string_view salt = apache_salt(hash);
    const bool whole = !salt.empty() && salt.size() <= 8 && hash.size() == kApacheMd5.size() + salt.size() + 1 + 22;
    return whole ? absl::OkStatus()
                 : absl::InvalidArgumentError("expected $apr1$, a salt, and a hash of 22 characters");
  }
  if (is_bcrypt(hash)) return check_bcrypt(hash);
  if (is_sha_crypt(hash)) return check_sha_crypt(hash);
  if (hash.starts_with(kYescrypt)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      "expected a hash as `htpasswd -B` writes it ($2y$...), or $y$, $6$, $5$, $apr1$, {SSHA} or {SHA}; plaintext "
      "passwords and hashes of the traditional crypt() are not accepted");
}

bool is_slow_hash(std::string_view hash) { return !hash.starts_with(kSha) && !hash.starts_with(kSaltedSha); }

bool password_fits(std::string_view hash, std::string_view password) {
  if (password.size() > kMaxPasswordBytes || password.find('\0') != std::string_view::npos) return false;
  if (!is_slow_hash(hash)) return fits_sha(hash, password);
  if (hash.starts_with(kApacheMd5)) return equal(ApacheMd5(password, apache_salt(hash)).hash(), hash);
  return fits_crypt(hash, password);
}

}  // namespace sluice
