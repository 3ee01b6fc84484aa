// Lookups of a name, or of a service, at a name server that sends anything: hosts, aliases, TTLs, and bytes that are
// not a response. In all cases the lookup ends or may be canceled, and the result belongs to the query.
//
// Input: a byte of flags, then responses, one for each query: see Server::response.
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "proxy/resolve/lookup.h"
#include "sluice/internal/check.h"
#include "test/support/fuzz_input.h"

namespace sluice {
namespace {

constexpr size_t kHeaderBytes = 12;
constexpr uint16_t kPort = 8080;
// Rounds without a query or a response, after which only a timeout is left to wait for.
constexpr int kQuietRounds = 3, kMaxRounds = 500;

std::string u16(size_t value) { return {static_cast<char>(value >> 8), static_cast<char>(value)}; }

class Server final : test::FuzzInput {
 public:
  Server(const uint8_t* data, size_t size) : FuzzInput(data, size) {}

  void run(int fd, const config::Address& address) {
    const uint8_t flags = byte();
    config::Resolve settings;
    settings.servers = {address};
    settings.attempts = 1 + (flags >> 7);
    settings.max_addresses = 8;
    settings.family = static_cast<config::AddressFamily>((flags & 15) % 3);
    config::Endpoint endpoint;
    endpoint.priority = 2;
    if (flags & 16) {
      endpoint.srv = config::ServiceName::parse("_a._tcp.a.test.").value();
    } else {
      endpoint.address = config::EndpointAddress::parse("a.test.:8080").value();
    }
    Lookup lookup(endpoint, settings);
    int quiet = 0;
    for (int round = 0; !lookup.done() && quiet < kQuietRounds && round < kMaxRounds; ++round) {
      quiet = turn(fd, lookup) ? 0 : quiet + 1;
    }
    while (::recv(fd, query_.data(), query_.size(), MSG_DONTWAIT) >= 0) continue;
    if (lookup.done()) check(lookup.take_result(), settings, !endpoint.srv.empty());
  }

 private:
  // Returns whether there was a query or a response.
  bool turn(int fd, Lookup& lookup) {
    bool busy = false;
    sockaddr_storage from;
    for (;;) {
      socklen_t length = sizeof from;
      const ssize_t size =
          ::recvfrom(fd, query_.data(), query_.size(), MSG_DONTWAIT, reinterpret_cast<sockaddr*>(&from), &length);
      if (size < static_cast<ssize_t>(kHeaderBytes)) break;
      busy = true;
      const std::string reply = response({query_.data(), static_cast<size_t>(size)});
      ::sendto(fd, reply.data(), reply.size(), 0, reinterpret_cast<const sockaddr*>(&from), length);
    }
    std::vector<pollfd> polled;
    lookup.add_to(polled);
    busy = ::poll(polled.data(), polled.size(), 0) > 0 || busy;
    lookup.process(polled);
    return busy;
  }

  // A byte: 128 for any bytes after the query's id; otherwise its low bits are the response code, mostly 0, and the
  // next byte is the number of records.
  std::string response(std::string_view query) {
    const uint8_t how = byte();
    if (how & 128) {
      const uint8_t size = byte();
      return std::string(query.substr(0, 2)).append(take(size));
    }
    size_t end = kHeaderBytes;  // The end of the question.
    while (end < query.size() && query[end] != 0) end += static_cast<uint8_t>(query[end]) + size_t{1};
    const std::string_view question = query.substr(kHeaderBytes, end + 5 - kHeaderBytes);
    const char query_type = query[end + 2];
    const size_t count = byte() % 20;
    const uint8_t code = how < 64 ? 0 : how % 8;
    std::string message(query.substr(0, 2));
    message.append("\x81").append(1, static_cast<char>(0x80 | code)).append(u16(1)).append(u16(count)).append(4, '\0');
    message.append(question);
    for (size_t i = 0; i < count; ++i) message.append(record(query_type));
    return message;
  }
  // A byte: its name, its type, and whether its size is right.
  std::string record(char query_type) {
    static constexpr std::array<char, 8> kTypes{0, 0, 0, 1, 28, 5, 33, 16};
    static constexpr std::string_view kNames[] = {"\xc0\x0c", {"\1b\4test\0", 8}, {"\0", 1}, {"\1a\4test\0", 8}};
    const uint8_t how = byte();
    char type = kTypes[how % 8];
    if (type == 0) type = query_type;
    std::string data;
    switch (type) {
      case 1:
        data = take(4);
        break;
      case 28:
        data = take(16);
        break;
      case 5:
        data = kNames[byte() % 4];
        break;
      case 33:
        data.append(u16(byte())).append(u16(byte())).append(u16(byte() % 4 * 4000)).append(kNames[byte() % 4]);
        break;
      default:
        data = take(byte());
    }
    std::string encoded(kNames[how < 192 ? 0 : how / 16 % 4]);
    encoded.append(1, '\0').append(1, type).append(u16(1)).append(u16(byte() & 32 ? 0xffff : 0)).append(u16(byte()));
    return encoded.append(u16(how & 8 && how & 16 ? byte() : data.size())).append(data);
  }

  static void check(const LookupResult& result, const config::Resolve& settings, bool service) {
    SLUICE_CHECK(result.ttl_s <= INT32_MAX);
    SLUICE_CHECK(result.failed() == (!result.error.empty() && result.endpoints.empty()));
    SLUICE_CHECK(!result.error.empty() || !(result.lacks_ip4 || result.lacks_ip6));
    for (const ResolvedEndpoint& each : result.endpoints) {
      const int family = each.address.data()->sa_family;
      SLUICE_CHECK(family == AF_INET ? settings.family != config::AddressFamily::kIp6
                                     : family == AF_INET6 && settings.family != config::AddressFamily::kIp4);
      SLUICE_CHECK(each.weight >= 1 && each.priority >= 2);
      SLUICE_CHECK(service ? each.address.port() != 0 : each.address.port() == kPort);
    }
  }

  std::array<char, 4096> query_;
};

}  // namespace
}  // namespace sluice

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace sluice;
  static const int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  static const config::Address address = [] {
    sockaddr_in bound{};
    bound.sin_family = AF_INET;
    bound.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof bound;
    SLUICE_CHECK(bind(fd, reinterpret_cast<const sockaddr*>(&bound), length) == 0);
    SLUICE_CHECK(getsockname(fd, reinterpret_cast<sockaddr*>(&bound), &length) == 0);
    return config::Address::parse("127.0.0.1:" + std::to_string(ntohs(bound.sin_port))).value();
  }();
  Server(data, size).run(fd, address);
  return 0;
}
