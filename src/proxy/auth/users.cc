#include "proxy/auth/users.h"

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "proxy/auth/password_hash.h"
#include "proxy/common/suggestions.h"

namespace sluice {

absl::StatusOr<Users> Users::parse(std::string_view text) {
  if (text.size() > kMaxFileBytes) {
    return absl::InvalidArgumentError(absl::StrCat("it has more than ", kMaxFileBytes, " bytes"));
  }
  Users users;
  size_t number = 0;
  for (std::string_view line : absl::StrSplit(text, '\n')) {
    ++number;
    const auto refuse = [&](std::string_view why) {
      return absl::InvalidArgumentError(absl::StrCat("line ", number, ": ", why));
    };
    line = absl::StripAsciiWhitespace(line);
    if (line.empty() || line.starts_with('#')) continue;
    const size_t colon = line.find(':');
    if (colon == 0 || colon == std::string_view::npos || colon > kMaxNameBytes) {
      return refuse("expected NAME:HASH, as `htpasswd -B` writes it");
    }
    const std::string_view name = line.substr(0, colon);
    std::string_view hash = line.substr(colon + 1);
    hash = hash.substr(0, hash.find(':'));  // The text after the hash is a comment.
    if (const absl::Status good = check_password_hash(hash); !good.ok()) {
      return refuse(absl::StrCat("user ", config::in_quotes(name), ": ", good.message()));
    }
    if (!users.hashes_.try_emplace(std::string(name), hash).second) {
      return refuse(absl::StrCat("user ", config::in_quotes(name), " is defined twice"));
    }
  }
  if (users.hashes_.empty()) return absl::InvalidArgumentError("it has no users; `htpasswd -B FILE NAME` adds one");
  return users;
}

const std::string* Users::find(std::string_view name) const {
  const auto found = hashes_.find(name);
  return found == hashes_.end() ? nullptr : &found->second;
}

}  // namespace sluice
