#include "proxy/config/model/address.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/un.h>

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstring>
#include <iterator>
#include <optional>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "proxy/common/suggestions.h"

namespace sluice::config {
namespace {

constexpr std::string_view kAddressExpected = "an address such as 127.0.0.1:8080, \"[::1]:8080\" or unix:/run/app.sock";
constexpr std::string_view kCidrExpected = "an address range such as 10.0.0.0/8 or \"2001:db8::/32\"";

absl::Status unexpected(std::string_view expected, std::string_view text, std::string_view hint = "") {
  return absl::InvalidArgumentError(absl::StrCat("expected ", expected, ", got ", in_quotes(text), hint));
}

bool has_control_character(std::string_view text) {
  return std::any_of(text.begin(), text.end(), [](unsigned char c) { return c < 0x20 || c == 0x7f; });
}

template <class Integer>
std::optional<Integer> parse_digits(std::string_view text) {
  Integer value{};
  const char* end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc{} || rest != end) return std::nullopt;
  return value;
}

// The probable mistake in a text without a usable host:port, as a suffix for the message.
std::string_view hint_for_host(std::string_view host) {
  if (host.empty() || host == "*") return "; for every interface write 0.0.0.0:PORT or \"[::]:PORT\"";
  if (absl::StrContains(host, "://") || absl::StrContains(host, "/")) return "; leave out the scheme and the path";
  if (absl::StrContains(host, ':'))
    return "; an IPv6 address needs brackets, and YAML then needs quotes: \"[::1]:PORT\"";
  const bool digits_and_dots = host.find_first_not_of("0123456789.") == std::string_view::npos;
  if (digits_and_dots) return "; that is not an IPv4 address";
  return "; a host name is not allowed here; use an IP address";
}

struct Ip {
  int family = AF_UNSPEC;
  std::array<uint8_t, 16> bytes{};
};

std::optional<Ip> parse_ip_literal(std::string_view text) {
  const std::string terminated(text);
  Ip ip;
  for (const int family : {AF_INET, AF_INET6}) {
    ip.family = family;
    if (inet_pton(family, terminated.c_str(), ip.bytes.data()) == 1) return ip;
  }
  return std::nullopt;
}

std::string print_ip(int family, const void* bytes) {
  char text[INET6_ADDRSTRLEN];
  return inet_ntop(family, bytes, text, sizeof(text));
}

}  // namespace

absl::StatusOr<Address> Address::parse(std::string_view text) {
  if (has_control_character(text)) return unexpected(kAddressExpected, text);
  std::string_view rest = text;
  if (absl::ConsumePrefix(&rest, "unix:")) return parse_unix(rest);
  const size_t colon = text.rfind(':');
  if (colon == std::string_view::npos || absl::EndsWith(text, "]")) {
    const bool only_port = !text.empty() && parse_digits<uint16_t>(text).has_value();
    return unexpected(kAddressExpected, text, only_port ? hint_for_host("") : "; the port is missing");
  }
  const std::string_view host = text.substr(0, colon);
  const std::optional<uint16_t> port = parse_digits<uint16_t>(text.substr(colon + 1));
  if (!port) return unexpected(kAddressExpected, text, "; a port is a number from 0 to 65535");
  if (host == "localhost") return parse_ip("127.0.0.1", *port, text);
  return parse_ip(host, *port, text);
}

absl::StatusOr<Address> Address::parse_ip(std::string_view host, uint16_t port, std::string_view text) {
  const bool bracketed = absl::StartsWith(host, "[") && absl::EndsWith(host, "]");
  const std::optional<Ip> ip = parse_ip_literal(bracketed ? host.substr(1, host.size() - 2) : host);
  if (bracketed && (!ip || ip->family != AF_INET6)) {
    return unexpected(kAddressExpected, text, "; the brackets do not contain an IPv6 address");
  }
  if (!ip || (!bracketed && ip->family == AF_INET6)) return unexpected(kAddressExpected, text, hint_for_host(host));
  Address address;
  if (ip->family == AF_INET) {
    sockaddr_in ip4{};
    ip4.sin_family = AF_INET;
    ip4.sin_port = htons(port);
    std::memcpy(&ip4.sin_addr, ip->bytes.data(), sizeof(ip4.sin_addr));
    std::memcpy(&address.storage_, &ip4, sizeof(ip4));
    address.length_ = sizeof(ip4);
  } else {
    sockaddr_in6 ip6{};
    ip6.sin6_family = AF_INET6;
    ip6.sin6_port = htons(port);
    std::memcpy(&ip6.sin6_addr, ip->bytes.data(), sizeof(ip6.sin6_addr));
    std::memcpy(&address.storage_, &ip6, sizeof(ip6));
    address.length_ = sizeof(ip6);
  }
  return address;
}

absl::StatusOr<Address> Address::parse_unix(std::string_view path) {
  const bool abstract = absl::ConsumePrefix(&path, "@");
  sockaddr_un un{};
  un.sun_family = AF_UNIX;
  // A path ends with a NUL and an abstract name begins with one, so either way one byte is not available.
  constexpr size_t kMaxPath = sizeof(un.sun_path) - 1;
  if (path.empty() || path.size() > kMaxPath) {
    return absl::InvalidArgumentError(absl::StrCat("expected a path (or @ and a name) of 1 to ", kMaxPath,
                                                   " bytes after unix:, got ", in_quotes(path)));
  }
  std::memcpy(un.sun_path + (abstract ? 1 : 0), path.data(), path.size());
  Address address;
  std::memcpy(&address.storage_, &un, sizeof(un));
  address.length_ = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + path.size() + 1);
  return address;
}

Address::Kind Address::kind() const {
  switch (family()) {
    case AF_INET:
      return Kind::kIp4;
    case AF_INET6:
      return Kind::kIp6;
    default:
      return Kind::kUnix;
  }
}

uint16_t Address::port() const {
  // The port has the same offset in both structures.
  static_assert(offsetof(sockaddr_in, sin_port) == offsetof(sockaddr_in6, sin6_port));
  if (family() != AF_INET && family() != AF_INET6) return 0;
  return ntohs(reinterpret_cast<const sockaddr_in*>(&storage_)->sin_port);
}

bool Address::is_wildcard() const {
  if (kind() == Kind::kIp4) return reinterpret_cast<const sockaddr_in*>(&storage_)->sin_addr.s_addr == INADDR_ANY;
  return kind() == Kind::kIp6 && IN6_IS_ADDR_UNSPECIFIED(&reinterpret_cast<const sockaddr_in6*>(&storage_)->sin6_addr);
}

Address Address::with_port(uint16_t port) const {
  Address other = *this;
  if (family() == AF_INET || family() == AF_INET6) {
    reinterpret_cast<sockaddr_in*>(&other.storage_)->sin_port = htons(port);
  }
  return other;
}

std::string Address::text() const {
  if (!is_set()) return "";
  if (family() == AF_INET) {
    return absl::StrCat(print_ip(AF_INET, &reinterpret_cast<const sockaddr_in*>(&storage_)->sin_addr), ":", port());
  }
  if (family() == AF_INET6) {
    const in6_addr& ip = reinterpret_cast<const sockaddr_in6*>(&storage_)->sin6_addr;
    return absl::StrCat("[", print_ip(AF_INET6, &ip), "]:", port());
  }
  const char* path = reinterpret_cast<const sockaddr_un*>(&storage_)->sun_path;
  const size_t path_bytes = length_ - offsetof(sockaddr_un, sun_path) - 1;
  if (path[0] == '\0') return absl::StrCat("unix:@", std::string_view(path + 1, path_bytes));
  return absl::StrCat("unix:", std::string_view(path, path_bytes));
}

bool operator==(const Address& a, const Address& b) {
  return a.length_ == b.length_ && std::memcmp(&a.storage_, &b.storage_, a.length_) == 0;
}

absl::StatusOr<Cidr> Cidr::parse(std::string_view text) {
  const size_t slash = text.find('/');
  const std::optional<Ip> ip = has_control_character(text) ? std::nullopt : parse_ip_literal(text.substr(0, slash));
  if (!ip) return unexpected(kCidrExpected, text);
  const unsigned family_bits = ip->family == AF_INET ? 32 : 128;
  const std::optional<unsigned> bits =
      slash == std::string_view::npos ? family_bits : parse_digits<unsigned>(text.substr(slash + 1));
  if (!bits || *bits > family_bits) {
    return unexpected(kCidrExpected, text, absl::StrCat("; the length is a number from 0 to ", family_bits));
  }
  Cidr cidr;
  cidr.family_ = ip->family;
  cidr.prefix_bits_ = *bits;
  for (size_t i = 0; i < *bits / 8; ++i) cidr.bytes_[i] = ip->bytes[i];
  const unsigned partial_bits = *bits % 8;
  if (partial_bits != 0) cidr.bytes_[*bits / 8] = ip->bytes[*bits / 8] & static_cast<uint8_t>(0xff00U >> partial_bits);
  if (cidr.bytes_ != ip->bytes) {
    return unexpected(kCidrExpected, text,
                      absl::StrCat("; bits are set beyond the prefix, did you mean ", cidr.text(), "?"));
  }
  return cidr;
}

bool Cidr::contains(const sockaddr* address) const {
  const auto* raw = reinterpret_cast<const uint8_t*>(address);
  if (address->sa_family == AF_INET) return contains({raw + offsetof(sockaddr_in, sin_addr), sizeof(in_addr)});
  if (address->sa_family == AF_INET6) return contains({raw + offsetof(sockaddr_in6, sin6_addr), sizeof(in6_addr)});
  return false;
}

bool Cidr::contains(std::span<const uint8_t> ip) const {
  static constexpr uint8_t kMapped[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
  const size_t family_bytes = family_ == AF_INET ? sizeof(in_addr) : sizeof(in6_addr);
  if (family_ == AF_INET && ip.size() == sizeof(in6_addr) &&
      std::equal(std::begin(kMapped), std::end(kMapped), ip.begin())) {
    ip = ip.subspan(sizeof kMapped);
  }
  if (ip.size() != family_bytes || family_ == AF_UNSPEC) return false;
  if (!std::equal(ip.begin(), ip.begin() + prefix_bits_ / 8, bytes_.begin())) return false;
  const unsigned partial_bits = prefix_bits_ % 8;
  if (partial_bits == 0) return true;
  const uint8_t mask = static_cast<uint8_t>(0xff00U >> partial_bits);
  return (ip[prefix_bits_ / 8] & mask) == bytes_[prefix_bits_ / 8];
}

std::string Cidr::text() const {
  if (family_ == AF_UNSPEC) return "";
  return absl::StrCat(print_ip(family_, bytes_.data()), "/", prefix_bits_);
}

}  // namespace sluice::config
