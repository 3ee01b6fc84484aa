// Any bytes as a request's target, under any rules: the result of canonical_target() is canonical, no longer than its
// input, and cannot be interpreted differently by a server.
//
// Input: one byte for the rules, then the target.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "proxy/router/canonical_path.h"
#include "sluice/internal/check.h"

namespace sluice {
namespace {

bool is_unreserved(char c) {
  return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') ||
         std::string_view("-._~").find(c) != std::string_view::npos;
}

// Escapes have two uppercase digits, and are only used for characters that need them.
void check_escapes(std::string_view path, const config::Paths& rules) {
  constexpr std::string_view kDigits = "0123456789ABCDEF";
  for (size_t i = 0; i < path.size(); ++i) {
    if (path[i] != '%') continue;
    SLUICE_CHECK(i + 2 < path.size());
    const size_t high = kDigits.find(path[i + 1]), low = kDigits.find(path[i + 2]);
    SLUICE_CHECK(high < 16 && low < 16);
    const auto byte = static_cast<char>(high << 4 | low);
    SLUICE_CHECK(byte != '\0' && !is_unreserved(byte));
    const bool keeps = rules.escaped_slashes == config::EscapedSlashes::kKeep;
    SLUICE_CHECK(keeps || (byte != '/' && byte != '\\'));
  }
}

// There are no dot segments, whatever a server treats as a slash.
void check_segments(std::string path, const config::Paths& rules) {
  for (const std::string_view slash : {"%2F", "%5C", "\\"}) {
    for (size_t at = path.find(slash); at != std::string::npos; at = path.find(slash))
      path.replace(at, slash.size(), "/");
  }
  path += "/";
  SLUICE_CHECK(path.find("/./") == std::string::npos && path.find("/../") == std::string::npos);
  if (rules.allow_dot_parameters) return;
  for (const std::string_view begin : {"/.;", "/..;", "/.%3B", "/..%3B"}) {
    SLUICE_CHECK(path.find(begin) == std::string::npos);
  }
}

void check(std::string_view target, const config::Paths& rules) {
  std::string scratch(target.size(), '\0');
  const CanonicalTarget result = canonical_target(target, rules, scratch);
  if (result.status == PathStatus::kInvalid) {
    SLUICE_CHECK(result.error != nullptr && result.target.empty());
    return;
  }
  SLUICE_CHECK(result.error == nullptr);
  SLUICE_CHECK((result.status == PathStatus::kSame) == (result.target == target));
  SLUICE_CHECK(result.target.size() <= target.size() && result.path_bytes <= result.target.size());
  for (const char c : result.target) SLUICE_CHECK(c > ' ' && c < '\x7f' && c != '#');
  const std::string_view path = result.path(), query = result.target.substr(path.size());
  SLUICE_CHECK(query.empty() || query.front() == '?');
  SLUICE_CHECK(query.size() == target.size() - std::min(target.find('?'), target.size()) && target.ends_with(query));
  SLUICE_CHECK(result.target == "*" || path.starts_with('/'));
  SLUICE_CHECK(path.find('?') == std::string_view::npos);
  SLUICE_CHECK(rules.allow_backslashes || path.find('\\') == std::string_view::npos);
  SLUICE_CHECK(!rules.merge_slashes || path.find("//") == std::string_view::npos);
  check_escapes(path, rules);
  check_segments(std::string(path), rules);

  std::string again(result.target.size(), '\0');
  SLUICE_CHECK(canonical_target(result.target, rules, again).status == PathStatus::kSame);
}

void check_host(std::string_view authority) {
  std::string scratch(authority.size(), '\0');
  const std::string_view host = canonical_host(authority, scratch);
  SLUICE_CHECK(host.size() <= authority.size());
  for (const char c : host) SLUICE_CHECK(c < 'A' || c > 'Z');
}

}  // namespace
}  // namespace sluice

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const uint8_t bits = data[0];
  const sluice::config::Paths rules{.escaped_slashes = static_cast<sluice::config::EscapedSlashes>((bits & 3) % 3),
                                    .merge_slashes = (bits & 4) != 0,
                                    .allow_backslashes = (bits & 8) != 0,
                                    .allow_dot_parameters = (bits & 16) != 0};
  const std::string target(reinterpret_cast<const char*>(data + 1), size - 1);
  sluice::check(target, rules);
  sluice::check_host(target);
  return 0;
}
