#include "proxy/upstream/sticky_cookie.h"

#include <array>
#include <chrono>
#include <cinttypes>
#include <cstddef>
#include <cstdio>
#include <string_view>

#include "absl/strings/numbers.h"
#include "proxy/http/message/named_values.h"
#include "sluice/internal/check.h"

namespace sluice {
namespace {

constexpr size_t kIdDigits = 16;

// The maximum size of Set-Cookie: the configured limits of names and paths, and 100 bytes for the rest.
constexpr size_t kMaxBytes = config::Sticky::kMaxCookieBytes + config::Sticky::kMaxPathBytes + 100;

}  // namespace

std::optional<uint32_t> find_sticky(const config::Sticky& sticky, const EndpointSet& endpoints, const Fields& request) {
  const std::string_view value = cookie_value(request, sticky.cookie);
  uint64_t id = 0;
  if (value.size() != kIdDigits || !absl::SimpleHexAtoi(value, &id)) return std::nullopt;
  return endpoints.find_cookie_id(id);
}

bool add_sticky(ChunkPool& pool, const config::Sticky& sticky, const EndpointSet& endpoints, uint32_t endpoint,
                bool secure, Fields& response) {
  const uint64_t id = endpoints.cookie_id(endpoint);
  if (id == 0) return true;  // The endpoint was removed in the meantime.
  std::array<char, 32> age{};
  const int64_t ttl_s = std::chrono::duration_cast<std::chrono::seconds>(sticky.ttl).count();
  if (ttl_s > 0) std::snprintf(age.data(), age.size(), "; Max-Age=%" PRId64, ttl_s);
  std::array<char, kMaxBytes> text;
  const int bytes = std::snprintf(text.data(), text.size(), "%s=%016" PRIx64 "; Path=%s%s; HttpOnly%s",
                                  sticky.cookie.c_str(), id, sticky.path.c_str(), age.data(), secure ? "; Secure" : "");
  SLUICE_CHECK(bytes > 0 && static_cast<size_t>(bytes) < text.size());
  return response.add(pool, "set-cookie", {text.data(), static_cast<size_t>(bytes)});
}

}  // namespace sluice
