#include "proxy/http/message/message_rules.h"

#include <arpa/inet.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <iterator>

#include "proxy/common/token.h"

namespace sluice {

using http1::is_alpha;
using http1::is_digit;
using http1::lowered;
using http1::same;

namespace {

constexpr std::array<bool, 256> kNameChars = [] {
  std::array<bool, 256> chars{};
  for (size_t c = 0; c < 128; ++c) chars[c] = is_alpha(static_cast<char>(c)) || is_digit(static_cast<char>(c));
  for (const char c : std::string_view("-._~!$&'()*+;=")) chars[static_cast<uint8_t>(c)] = true;
  return chars;
}();

bool is_ip6(std::string_view text) {
  std::array<char, INET6_ADDRSTRLEN> terminated{};
  if (text.size() >= terminated.size() || text.find('\0') != std::string_view::npos) return false;
  text.copy(terminated.data(), text.size());
  in6_addr address;
  return inet_pton(AF_INET6, terminated.data(), &address) == 1;
}

bool is_port(std::string_view text) {
  uint32_t port = 0;
  const std::from_chars_result end = std::from_chars(text.data(), text.data() + text.size(), port);
  return text.empty() || (text.size() <= 5 && end.ptr == text.data() + text.size() && port <= UINT16_MAX);
}

}  // namespace

bool is_authority(std::string_view text) {
  if (text.starts_with('[')) {
    const size_t bracket = text.find(']');
    if (bracket == std::string_view::npos) return false;
    const std::string_view rest = text.substr(bracket + 1);
    return is_ip6(text.substr(1, bracket - 1)) && (rest.empty() || (rest.front() == ':' && is_port(rest.substr(1))));
  }
  const size_t colon = text.find(':');
  const std::string_view name = text.substr(0, colon);
  return !name.empty() &&
         std::all_of(name.begin(), name.end(), [](char c) { return kNameChars[static_cast<uint8_t>(c)]; }) &&
         (colon == std::string_view::npos || is_port(text.substr(colon + 1)));
}

bool is_method_to_forward(std::string_view method) {
  return method != "PRI" && std::none_of(method.begin(), method.end(), [](char c) { return c >= 'a' && c <= 'z'; });
}

bool is_end_to_end(std::string_view name) {
  for (const std::string_view lower : {"host", "content-length", "authorization", "cookie", "forwarded"}) {
    if (same(name, lower)) return true;
  }
  return name.size() > 12 && same(name.substr(0, 12), "x-forwarded-");
}

bool may_be_in_trailers(std::string_view name) {
  static constexpr std::string_view kBarred[] = {"authorization",
                                                 "cache-control",
                                                 "content-encoding",
                                                 "content-length",
                                                 "content-range",
                                                 "content-type",
                                                 "cookie",
                                                 "expect",
                                                 "forwarded",
                                                 "host",
                                                 "location",
                                                 "max-forwards",
                                                 "proxy-authorization",
                                                 "proxy-authenticate",
                                                 "range",
                                                 "set-cookie",
                                                 "te",
                                                 "trailer",
                                                 "www-authenticate",
                                                 "if-match",
                                                 "if-none-match",
                                                 "if-range",
                                                 "if-modified-since",
                                                 "if-unmodified-since",
                                                 "date",
                                                 "pragma"};
  const auto is_it = [name](std::string_view lower) { return same(name, lower); };
  return std::none_of(std::begin(kBarred), std::end(kBarred), is_it) && !is_end_to_end(name) &&
         !(name.size() > 14 && same(name.substr(0, 14), "sec-websocket-"));
}

bool is_idempotent(std::string_view method) {
  return method == "GET" || method == "HEAD" || method == "OPTIONS" || method == "TRACE" || method == "PUT" ||
         method == "DELETE";
}

}  // namespace sluice
