#include "proxy/auth/basic_authenticator.h"

#include <openssl/hmac.h>
#include <openssl/mem.h>
#include <openssl/rand.h>

#include <array>
#include <limits>
#include <optional>

#include "absl/strings/str_cat.h"
#include "proxy/auth/credentials.h"

namespace sluice {
namespace {

constexpr int64_t kForever = std::numeric_limits<int64_t>::max();

// The cache key of a name and a password. Without the HMAC key it reveals nothing about them.
SecretDigest keyed_digest(const NameAndPassword& given) {
  static const std::array<uint8_t, 32> key = [] {
    std::array<uint8_t, 32> random;
    RAND_bytes(random.data(), random.size());
    return random;
  }();
  std::array<uint8_t, BasicAuthenticator::kMaxDecodedBytes> text;
  size_t size = given.name.copy(reinterpret_cast<char*>(text.data()), Users::kMaxNameBytes);
  text[size++] = ':';  // No name contains a colon.
  size += given.password.copy(reinterpret_cast<char*>(text.data()) + size, kMaxPasswordBytes);
  SecretDigest digest;
  unsigned bytes = 0;
  HMAC(EVP_sha256(), key.data(), key.size(), text.data(), size, digest.data(), &bytes);
  OPENSSL_cleanse(text.data(), size);
  return digest;
}

}  // namespace

PasswordCheck::PasswordCheck(BasicAuthenticator& gate, std::string_view hash, std::string_view password,
                             const SecretDigest& digest, bool known)
    : gate_(gate), generation_(gate.generation_), hash_(hash), password_(password), digest_(digest), known_(known) {}

PasswordCheck::~PasswordCheck() { OPENSSL_cleanse(password_.data(), password_.size()); }

void PasswordCheck::run() { fits_ = password_fits(hash_, password_) && known_; }

void PasswordCheck::finish(Worker&, std::unique_ptr<Job> /*self*/) {
  --gate_.checks_;
  if (generation_ == gate_.generation_) (void)gate_.remember(digest_, fits_);
  if (done_) done_(context_, fits_);
}

BasicAuthenticator::BasicAuthenticator(const config::BasicAuth& rules, HelperThreads& threads)
    : challenge_(absl::StrCat("Basic realm=\"", rules.realm, "\", charset=\"UTF-8\"")), threads_(threads) {}

void BasicAuthenticator::use(const Users& users) {
  users_ = &users;
  ++generation_;
  cache_.clear();
}

std::string_view BasicAuthenticator::name_of(const Fields& fields, Scratch& scratch) {
  const std::optional<NameAndPassword> given = find_password(fields, scratch);
  return given ? given->name : std::string_view();
}

AuthResult BasicAuthenticator::check(const Fields& fields, PasswordCheck*& check) {
  Scratch scratch;
  const std::optional<NameAndPassword> given = find_password(fields, scratch);
  if (!given || given->name.size() > Users::kMaxNameBytes || given->password.size() > kMaxPasswordBytes) {
    return AuthResult::kRefused;
  }
  const SecretDigest digest = keyed_digest(*given);
  if (cache_.find(digest, 0)) return AuthResult::kAdmitted;
  const std::string* const known = users_->find(given->name);
  const std::string& hash = known ? *known : users_->some_hash();
  if (!is_slow_hash(hash) || !HelperThreads::has_desk()) {
    return remember(digest, password_fits(hash, given->password) && known);
  }
  if (checks_ == kMaxChecks) return AuthResult::kBusy;
  ++checks_;
  auto made = std::make_unique<PasswordCheck>(*this, hash, given->password, digest, known != nullptr);
  check = made.get();
  threads_.start();
  threads_.give(std::move(made));
  return AuthResult::kLater;
}

AuthResult BasicAuthenticator::remember(const SecretDigest& digest, bool fits) {
  if (!fits) return AuthResult::kRefused;
  cache_.put(digest, kForever);
  return AuthResult::kAdmitted;
}

}  // namespace sluice
