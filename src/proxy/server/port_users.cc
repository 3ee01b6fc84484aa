#include "proxy/server/port_users.h"

#include <arpa/inet.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>

#include "absl/cleanup/cleanup.h"

namespace sluice {

std::optional<bool> others_listen(int family, uint16_t port, std::span<const ino_t> own) {
  const int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_SOCK_DIAG);
  if (fd < 0) return std::nullopt;
  const absl::Cleanup close_fd = [fd] { close(fd); };
  const timeval patience{1, 0};
  setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  struct {
    nlmsghdr header;
    inet_diag_req_v2 wanted;
  } request{};
  request.header.nlmsg_len = sizeof request;
  request.header.nlmsg_type = SOCK_DIAG_BY_FAMILY;
  request.header.nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP;
  request.wanted.sdiag_family = static_cast<uint8_t>(family);
  request.wanted.sdiag_protocol = IPPROTO_TCP;
  request.wanted.idiag_states = 1 << TCP_LISTEN;
  if (send(fd, &request, sizeof request, 0) != sizeof request) return std::nullopt;
  bool found = false;
  for (;;) {
    std::array<char, 32768> response;
    const ssize_t received = recv(fd, response.data(), response.size(), 0);
    if (received <= 0) return std::nullopt;
    // NLMSG_NEXT and its like cannot be used: they cast away alignment.
    for (size_t at = 0, end = static_cast<size_t>(received); at + sizeof(nlmsghdr) <= end;) {
      nlmsghdr header;
      std::memcpy(&header, response.data() + at, sizeof header);
      if (header.nlmsg_len < sizeof header || header.nlmsg_len > end - at) return std::nullopt;
      if (header.nlmsg_type == NLMSG_DONE) return found;
      inet_diag_msg socket_there;
      if (header.nlmsg_type != SOCK_DIAG_BY_FAMILY || header.nlmsg_len < sizeof header + sizeof socket_there) {
        return std::nullopt;
      }
      std::memcpy(&socket_there, response.data() + at + sizeof header, sizeof socket_there);
      at += (header.nlmsg_len + size_t{3}) & ~size_t{3};
      if (ntohs(socket_there.id.idiag_sport) != port) continue;
      found = found || std::find(own.begin(), own.end(), socket_there.idiag_inode) == own.end();
    }
  }
}

}  // namespace sluice
