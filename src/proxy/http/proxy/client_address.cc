#include "proxy/http/proxy/client_address.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <algorithm>
#include <array>
#include <cstddef>

#include "proxy/common/token.h"
#include "proxy/http/message/list_field.h"

namespace sluice {

namespace {

bool is_port(std::string_view text) {
  return !text.empty() && text.size() <= 5 && std::all_of(text.begin(), text.end(), http1::is_digit);
}

}  // namespace

std::optional<ClientIp> parse_forwarded_address(std::string_view text) {
  const size_t colon = text.rfind(':');
  const bool bracketed = text.starts_with('[');
  // A colon precedes a port if it is the only one, or if it follows the bracket.
  if (colon != std::string_view::npos && (bracketed ? text[colon - 1] == ']' : text.find(':') == colon)) {
    if (!is_port(text.substr(colon + 1))) return std::nullopt;
    text = text.substr(0, colon);
  }
  if (bracketed) {
    if (!text.ends_with(']')) return std::nullopt;
    text = text.substr(1, text.size() - 2);
  }
  std::array<char, INET6_ADDRSTRLEN> terminated;
  if (text.size() >= terminated.size() || text.find('\0') != std::string_view::npos) return std::nullopt;
  *std::copy(text.begin(), text.end(), terminated.begin()) = '\0';
  std::array<std::byte, 16> bytes;
  if (inet_pton(AF_INET6, terminated.data(), bytes.data()) == 1) {
    return ClientIp(PeerAddress::ip6(std::span<const std::byte, 16>(bytes), 0));
  }
  if (bracketed || inet_pton(AF_INET, terminated.data(), bytes.data()) != 1) return std::nullopt;
  return ClientIp(PeerAddress::ip4(std::span<const std::byte, 4>(bytes.data(), 4), 0));
}

bool TrustedProxies::holds(const ClientIp& address) const {
  return std::any_of(ranges_.begin(), ranges_.end(),
                     [&](const config::Cidr& range) { return range.contains(address.bytes()); });
}

std::optional<ClientIp> TrustedProxies::client(const Fields& request) const {
  ListFromTheRight entries(request, "x-forwarded-for");
  std::optional<ClientIp> client;
  for (uint32_t hops = 1; const std::optional<std::string_view> entry = entries.next(); ++hops) {
    if (hops > kMaxForwardedHops) return std::nullopt;
    client = parse_forwarded_address(*entry);
    if (!client) return std::nullopt;
    if (hops_ > 0 ? hops == hops_ : !holds(*client)) return client;
  }
  // All entries are proxies, so the leftmost one is the client.
  return hops_ > 0 ? std::nullopt : client;
}

}  // namespace sluice
