#include "proxy/admin/browser_page.h"

#include <openssl/sha.h>

#include <array>
#include <cstdint>
#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace sluice {

namespace {

// The source of what is between <tag> and </tag>, for a policy.
std::string hash_source(std::string_view page, std::string_view tag) {
  const std::string begin = absl::StrCat("<", tag, ">"), end = absl::StrCat("</", tag, ">");
  const size_t from = page.find(begin), to = page.find(end);
  if (from == std::string_view::npos || to == std::string_view::npos || to < from) return "'none'";
  const std::string_view text = page.substr(from + begin.size(), to - from - begin.size());
  std::array<uint8_t, SHA256_DIGEST_LENGTH> digest{};
  SHA256(reinterpret_cast<const uint8_t*>(text.data()), text.size(), digest.data());
  const std::string_view bytes(reinterpret_cast<const char*>(digest.data()), digest.size());
  return absl::StrCat("'sha256-", absl::Base64Escape(bytes), "'");
}

}  // namespace

bool wants_browser_page(std::string_view accept) {
  for (const std::string_view range : absl::StrSplit(accept, ',')) {
    const std::string_view type = absl::StripAsciiWhitespace(range.substr(0, range.find(';')));
    if (absl::EqualsIgnoreCase(type, "text/html")) return true;
  }
  return false;
}

// Trusted types without a policy: the browser refuses to parse any text of the process as HTML.
std::string_view browser_page_policy() {
  static const std::string policy =
      absl::StrCat("default-src 'none'; script-src ", hash_source(browser_page(), "script"), "; style-src ",
                   hash_source(browser_page(), "style"),
                   "; connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
                   "require-trusted-types-for 'script'; trusted-types 'none'");
  return policy;
}

}  // namespace sluice
