#include "proxy/admin/admin_token.h"

#include <openssl/mem.h>
#include <openssl/sha.h>

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "proxy/common/read_file.h"

namespace sluice {

AdminToken::AdminToken(std::string_view token) {
  SHA256(reinterpret_cast<const uint8_t*>(token.data()), token.size(), digest_.data());
}

absl::StatusOr<AdminToken> AdminToken::read(const std::string& path) {
  const absl::StatusOr<SecretBytes> bytes = read_secret_file(path);
  if (!bytes.ok()) return bytes.status();
  std::string_view token(reinterpret_cast<const char*>(bytes->data()), bytes->size());
  token = absl::StripTrailingAsciiWhitespace(token);
  const bool printable = std::all_of(token.begin(), token.end(), absl::ascii_isgraph);
  if (!printable || token.size() < kMinBytes || token.size() > kMaxBytes) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": expected a token of ", kMinBytes, " to ", kMaxBytes,
                                                   " printable characters without blanks, got ", token.size(),
                                                   printable ? " characters" : " bytes with others among them",
                                                   "; make one with `openssl rand -hex 32`"));
  }
  return AdminToken(token);
}

bool AdminToken::admits(const Fields& fields) const {
  const size_t at = fields.find("authorization");
  if (at == Fields::npos || fields.find("authorization", at + 1) != Fields::npos) return false;
  constexpr std::string_view kScheme = "bearer ";
  std::string_view value = fields[at].value;
  if (!absl::StartsWithIgnoreCase(value, kScheme)) return false;
  value = absl::StripAsciiWhitespace(value.substr(kScheme.size()));
  const AdminToken given(value);
  return CRYPTO_memcmp(given.digest_.data(), digest_.data(), digest_.size()) == 0;
}

}  // namespace sluice
