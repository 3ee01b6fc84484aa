#include "proxy/http/message/client_ip.h"

#include <arpa/inet.h>

#include <cstddef>

namespace sluice {

namespace {

// The decimal digits of a byte, with a dot behind them.
struct Part {
  std::array<char, 4> text{};
  uint8_t size = 0;
};

constexpr std::array<Part, 256> kParts = [] {
  std::array<Part, 256> parts{};
  for (unsigned value = 0; value < parts.size(); ++value) {
    Part& part = parts[value];
    const auto add = [&](unsigned digit) { part.text[part.size++] = static_cast<char>('0' + digit); };
    if (value >= 100) add(value / 100);
    if (value >= 10) add(value / 10 % 10);
    add(value % 10);
    part.text[part.size++] = '.';
  }
  return parts;
}();
static_assert(4 * sizeof(Part::text) <= ClientIp::kTextBytes);

}  // namespace

// Runs once per request or more; inet_ntop would go through printf.
std::string_view ClientIp::text(std::span<char, kTextBytes> room) const {
  if (size_ == 0) return {};
  if (size_ == 16) return inet_ntop(AF_INET6, bytes_.data(), room.data(), room.size());
  char* to = room.data();
  for (size_t i = 0; i < 4; ++i) {
    const Part& part = kParts[bytes_[i]];
    std::memcpy(to, part.text.data(), part.text.size());  // Always four, for speed; the next part overwrites the rest.
    to += part.size;
  }
  return {room.data(), static_cast<size_t>(to - room.data()) - 1};
}

}  // namespace sluice
