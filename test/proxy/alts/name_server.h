// A name server (RFC 1035, over UDP) in the test's own thread, which knows only the IPv4 addresses of names.
#pragma once

#include <arpa/inet.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "proxy/config/model/resolve.h"
#include "sluice/internal/check.h"
#include "test/net/loop.h"

namespace sluice::test {

class NameServer {
 public:
  NameServer() : fd_(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)) {
    const sockaddr_in any = loopback(0);
    SLUICE_CHECK(fd_ >= 0 && bind(fd_, generic(any), sizeof any) == 0);
  }
  ~NameServer() { ::close(fd_); }

  config::Resolve settings() const {
    config::Resolve resolve;
    resolve.timeout = std::chrono::milliseconds(200);
    resolve.attempts = 10;
    resolve.servers = {config::Address::parse("127.0.0.1:" + std::to_string(port_of(fd_))).value()};
    return resolve;
  }

  /// Keys are names on the wire, such as "\3app\4test". Other names do not exist.
  std::map<std::string, std::vector<std::string>> addresses;
  bool responds = true;
  bool responds_ip6 = true;  ///< Responds that a name has no IPv6 addresses.
  bool fails = false;        ///< Responds with SERVFAIL.
  int query_count = 0;       ///< The number of queries for IPv4 addresses.

  /// Responds to all queries.
  void turn() {
    char query[512];
    sockaddr_in from{};
    socklen_t from_size = sizeof from;
    for (;;) {
      const ssize_t size = recvfrom(fd_, query, sizeof query, 0, reinterpret_cast<sockaddr*>(&from), &from_size);
      if (size < 17) return;
      const std::string response = response_to(std::string(query, static_cast<size_t>(size)));
      if (!responds || response.empty()) continue;
      sendto(fd_, response.data(), response.size(), 0, generic(from), sizeof from);
    }
  }

 private:
  std::string response_to(const std::string& query) {
    const size_t name_end = query.find('\0', 12);
    const std::string name = query.substr(12, name_end - 12), question = query.substr(12, name_end + 5 - 12);
    const bool ip4 = question[question.size() - 3] == 1;
    if (ip4) ++query_count;
    if (!ip4 && !responds_ip6) return "";
    const auto known = addresses.find(name);
    std::string records;
    char count = 0;
    if (ip4 && known != addresses.end()) {
      for (const std::string& address : known->second) {
        in_addr bytes{};
        SLUICE_CHECK(inet_pton(AF_INET, address.c_str(), &bytes) == 1);
        records += std::string("\xc0\x0c\0\1\0\1\0\0\0\1\0\4", 12) + std::string(reinterpret_cast<char*>(&bytes), 4);
        ++count;
      }
    }
    const char code = fails ? 2 : known == addresses.end() ? 3 : 0;
    std::string head = query.substr(0, 2) + std::string("\x81\x80\0\1\0\0\0\0\0\0", 10);
    head[3] = static_cast<char>('\x80' | code);
    head[7] = count;
    return head + question + records;
  }

  const int fd_;
};

}  // namespace sluice::test
