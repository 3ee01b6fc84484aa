#include "proxy/server/listen_sockets.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "net/listener.h"
#include "proxy/common/peer_address.h"
#include "proxy/server/port_users.h"
#include "sluice/internal/check.h"

namespace sluice {

namespace {

ListenOptions listen_options(const config::Listener& listener) {
  const auto seconds = [](config::Duration d) { return static_cast<int>((d.count() + 999) / 1000); };
  return {.backlog = static_cast<int>(listener.backlog),
          .unsent_bytes = listener.http ? kHttpUnsentBytes : 0,
          .nodelay = listener.nodelay,
          .keepalive_idle_s = seconds(listener.keepalive.idle),
          .keepalive_interval_s = seconds(listener.keepalive.interval),
          .keepalive_probes = static_cast<int>(listener.keepalive.probes)};
}

const char* unix_path(const config::Address& address) {
  return reinterpret_cast<const sockaddr_un*>(address.data())->sun_path;
}

// A socket file without a listening process is left over from a process that was killed.
void remove_stale_unix_socket(const config::Address& address) {
  const char* const path = unix_path(address);
  struct stat file;
  if (path[0] == '\0' || stat(path, &file) != 0 || !S_ISSOCK(file.st_mode)) return;
  const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return;
  if (connect(fd, address.data(), address.length()) != 0 && errno == ECONNREFUSED) unlink(path);
  close(fd);
}

bool is_unix(const config::Address& address) { return address.kind() == config::Address::Kind::kUnix; }

absl::Status bind_for_a_moment(const config::ListenAddress& at) {
  const int fd = socket(at.address.family(), SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return absl::ErrnoToStatus(errno, "socket");
  const int on = 1, ip6_only = at.both_families ? 0 : 1;
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (at.address.family() == AF_INET6) setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &ip6_only, sizeof ip6_only);
  const int result = bind(fd, at.address.data(), at.address.length());
  const int error = errno;
  ::close(fd);
  return result == 0 ? absl::OkStatus() : absl::ErrnoToStatus(error, "bind");
}

// Compares the text, because several errnos share a status code.
bool is_errno(const absl::Status& error, int number) { return absl::EndsWith(error.message(), std::strerror(number)); }

absl::Status listen_error(const config::Listener& listener, const config::ListenAddress& at,
                          const absl::Status& error) {
  const char* hint = "";
  if (is_errno(error, EADDRINUSE)) {
    hint = is_unix(at.address) ? "; a file that is not a socket, or the socket of another process, has that name"
           : at.both_families
               ? "; another process listens there, for IPv6 or IPv4 (see `ss -ltnp`); for IPv6 alone set "
                 "`ipv6_only: true`"
               : "; another process listens there (see `ss -ltnp`)";
  }
  if (is_errno(error, EADDRNOTAVAIL)) hint = "; no interface of this machine has it (see `ip address`)";
  if (is_errno(error, EACCES) && !is_unix(at.address)) hint = "; ports below 1024 need CAP_NET_BIND_SERVICE";
  const std::string who =
      listener.name == kAdminListener ? std::string("admin") : absl::StrCat("listener \"", listener.name, "\"");
  return absl::Status(error.code(),
                      absl::StrCat(who, ": cannot listen on ", at.address.text(), ": ", error.message(), hint));
}

}  // namespace

std::vector<ListenSockets::Wanted> ListenSockets::wanted_by(const config::Listener& listener,
                                                            const std::vector<config::ListenAddress>& addresses) {
  std::vector<Wanted> all;
  for (size_t i = 0; i < addresses.size(); ++i) {
    const auto equals = std::count(addresses.begin(), addresses.begin() + static_cast<ptrdiff_t>(i), addresses[i]);
    all.push_back({listener, addresses[i], static_cast<size_t>(equals)});
  }
  return all;
}

std::vector<ListenSockets::Wanted> ListenSockets::wanted_by(const config::Config& config) {
  const config::ListenAddresses addresses(config);
  std::vector<Wanted> all;
  for (const config::Listener& listener : config.listeners) {
    for (Wanted& each : wanted_by(listener, addresses.of(listener))) all.push_back(std::move(each));
  }
  return all;
}

bool ListenSockets::is_of(const Socket& socket, const Wanted& wanted) {
  const bool chosen = !is_unix(wanted.at.address) && wanted.at.address.port() == 0;
  return socket.at == wanted.at &&
         (!chosen || (socket.listener == wanted.listener.name && socket.ordinal == wanted.ordinal));
}

ListenSockets::Socket* ListenSockets::find(const Wanted& wanted) {
  const auto found =
      std::find_if(sockets_.begin(), sockets_.end(), [&](const Socket& each) { return is_of(each, wanted); });
  return found == sockets_.end() ? nullptr : &*found;
}

absl::Status ListenSockets::open(const config::Config& config) {
  const size_t before = sockets_.size();
  for (const Wanted& wanted : wanted_by(config)) {
    Socket* const inherited = find(wanted);
    const absl::Status opened = inherited ? add_sockets(wanted, *inherited) : open_one(wanted);
    if (opened.ok()) continue;
    for (; sockets_.size() > before; sockets_.pop_back()) close_one(sockets_.back());
    return listen_error(wanted.listener, wanted.at, opened);
  }
  return absl::OkStatus();
}

// With SO_REUSEPORT two instances would share an address silently, so a plain bind checks for another one first. It
// also fails if a socket of our own has the port at an address that overlaps, such as that of a listener that changes
// from one address to all. Then sock_diag shows who else listens there.
absl::Status ListenSockets::check_is_free(const config::ListenAddress& at) const {
  const absl::Status bound = bind_for_a_moment(at);
  if (bound.ok() || !is_errno(bound, EADDRINUSE)) return bound;
  std::vector<ino_t> own;
  for (const Socket& socket : sockets_) {
    if (is_unix(socket.at.address) || socket.at.address.port() != at.address.port()) continue;
    for (const int fd : socket.fds) own.push_back(socket_inode(fd));
  }
  if (own.empty()) return bound;
  std::vector<int> families = {at.address.family()};
  if (at.both_families) families.push_back(AF_INET);
  for (const int family : families) {
    if (others_listen(family, at.address.port(), own).value_or(false)) return bound;
  }
  return absl::OkStatus();
}

absl::Status ListenSockets::open_one(const Wanted& wanted) {
  const config::Address& address = wanted.at.address;
  if (is_unix(address)) {
    remove_stale_unix_socket(address);
  } else if (absl::Status free = check_is_free(wanted.at); !free.ok()) {
    return free;
  }
  Socket opened{.listener = wanted.listener.name, .at = wanted.at, .ordinal = wanted.ordinal};
  if (absl::Status added = add_sockets(wanted, opened); !added.ok()) {
    for (const int each : opened.fds) ::close(each);
    return added;
  }
  opened.remember_file();
  sockets_.push_back(std::move(opened));
  return absl::OkStatus();
}

// Opens the sockets that are missing: one for each worker, if that is possible.
absl::Status ListenSockets::add_sockets(const Wanted& wanted, Socket& socket) const {
  const config::Address& address = wanted.at.address;
  sockaddr_storage storage{};
  socklen_t length = address.length();
  std::memcpy(&storage, address.data(), length);
  ListenOptions options = listen_options(wanted.listener);
  options.ipv6_only = !wanted.at.both_families;
  options.file_mode = file_mode_;
  while (socket.fds.size() < (is_unix(address) ? 1 : workers_)) {
    // With port 0, all workers bind the port that the kernel chose for the first.
    if (!socket.fds.empty()) {
      getsockname(socket.fds[0], reinterpret_cast<sockaddr*>(&storage), &(length = sizeof storage));
    }
    auto fd = open_listener(reinterpret_cast<sockaddr*>(&storage), length, options);
    // Only the user who has bound a port may bind it again. A socket that systemd has opened is root's, so all workers
    // share it.
    const bool may_not = is_errno(fd.status(), EADDRINUSE) || is_errno(fd.status(), EACCES);
    if (may_not && !socket.fds.empty()) break;
    if (!fd.ok()) return fd.status();
    socket.fds.push_back(*fd);
  }
  return absl::OkStatus();
}

void ListenSockets::Socket::remember_file() {
  struct stat file;
  has_file = is_unix(at.address) && unix_path(at.address)[0] != '\0' && stat(unix_path(at.address), &file) == 0;
  if (!has_file) return;
  device = file.st_dev;
  inode = file.st_ino;
}

// ---- Sockets of another process ----

absl::Status ListenSockets::inherit(const HandedSocket& socket) {
  const absl::StatusOr<config::Address> address = config::Address::parse(socket.address);
  if (!address.ok() || socket.fds.empty()) {
    return absl::InvalidArgumentError("upgrade: the old process has sent a malformed message");
  }
  // A socket that nobody accepts from would keep its share of the connections waiting.
  if (!is_unix(*address) && socket.fds.size() > workers_) {
    return absl::FailedPreconditionError(
        absl::StrCat("upgrade: the old process has ", socket.fds.size(), " workers and this one only ", workers_,
                     ": an upgrade keeps their number or raises it; for fewer, restart"));
  }
  Socket inherited{.listener = socket.listener,
                   .at = {*address, socket.both_families},
                   .ordinal = socket.ordinal,
                   .fds = socket.fds};
  inherited.remember_file();
  sockets_.push_back(std::move(inherited));
  return absl::OkStatus();
}

absl::Status ListenSockets::inherit_passed(const std::vector<int>& fds) {
  std::vector<HandedSocket> sockets;
  for (const int fd : fds) {
    HandedSocket socket{.address = text_of(PeerAddress::own_of(fd)), .fds = {fd}};
    int only_ipv6 = 1;
    socklen_t length = sizeof only_ipv6;
    getsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &only_ipv6, &length);  // Fails for other families.
    socket.both_families = only_ipv6 == 0;
    const auto same = std::find_if(sockets.begin(), sockets.end(), [&](const HandedSocket& each) {
      return each.address == socket.address && each.both_families == socket.both_families;
    });
    same == sockets.end() ? sockets.push_back(std::move(socket)) : same->fds.push_back(fd);
  }
  for (const HandedSocket& socket : sockets) {
    if (absl::Status inherited = inherit(socket); !inherited.ok()) return inherited;
  }
  return absl::OkStatus();
}

std::vector<HandedSocket> ListenSockets::to_hand_over() const {
  std::vector<HandedSocket> sockets;
  for (const Socket& each : sockets_) {
    sockets.push_back({.listener = each.listener,
                       .address = each.at.address.text(),
                       .both_families = each.at.both_families,
                       .ordinal = static_cast<uint32_t>(each.ordinal),
                       .fds = each.fds});
  }
  return sockets;
}

void ListenSockets::leave() {
  for (Socket& each : sockets_) each.has_file = false;
  close();
}

void ListenSockets::keep_only(const config::Config& config) {
  const std::vector<Wanted> all = wanted_by(config);
  std::erase_if(sockets_, [&](const Socket& socket) {
    for (const Wanted& wanted : all) {
      if (!is_of(socket, wanted)) continue;
      for (const int fd : socket.fds) set_listen_options(fd, listen_options(wanted.listener));
      if (socket.has_file && file_mode_ != 0) chmod(unix_path(socket.at.address), file_mode_);
      return false;
    }
    close_one(socket);
    return true;
  });
}

absl::StatusOr<std::vector<ListenSocket>> ListenSockets::duplicate(const config::Listener& listener,
                                                                   const std::vector<config::ListenAddress>& addresses,
                                                                   unsigned worker) const {
  std::vector<ListenSocket> copies;
  for (const Wanted& wanted : wanted_by(listener, addresses)) {
    const Socket* const socket = find(wanted);
    SLUICE_CHECK(socket);
    const int fd = fcntl(socket->fds[worker % socket->fds.size()], F_DUPFD_CLOEXEC, 0);
    if (fd < 0) {
      const int error = errno;
      for (const ListenSocket& each : copies) ::close(each.fd);
      return absl::ErrnoToStatus(error, absl::StrCat("listener \"", listener.name, "\": no descriptor for its socket"));
    }
    copies.push_back({.fd = fd, .family = wanted.at.address.family(), .shared = socket->fds.size() < workers_});
  }
  return copies;
}

std::vector<std::string> ListenSockets::bound_addresses(const config::Listener& listener,
                                                        const std::vector<config::ListenAddress>& addresses) const {
  std::vector<std::string> texts;
  for (const Wanted& wanted : wanted_by(listener, addresses)) {
    config::Address address = wanted.at.address;
    if (!is_unix(address) && address.port() == 0) {
      address = address.with_port(PeerAddress::own_of(find(wanted)->fds[0]).port());
    }
    texts.push_back(absl::StrCat(address.text(), wanted.at.both_families ? " (IPv4 too)" : ""));
  }
  return texts;
}

void ListenSockets::close() {
  for (const Socket& socket : sockets_) close_one(socket);
  sockets_.clear();
}

// Another process may have replaced the file. While the socket is open, no other file has its device and inode.
void ListenSockets::close_one(const Socket& socket) {
  struct stat file;
  if (socket.has_file && stat(unix_path(socket.at.address), &file) == 0 && file.st_dev == socket.device &&
      file.st_ino == socket.inode) {
    unlink(unix_path(socket.at.address));
  }
  for (const int fd : socket.fds) ::close(fd);
}

}  // namespace sluice
