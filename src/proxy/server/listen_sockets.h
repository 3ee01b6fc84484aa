#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "proxy/config/model/config.h"
#include "proxy/config/model/listen_address.h"
#include "proxy/listener/client_acceptor.h"
#include "proxy/server/handed_values.h"

namespace sluice {

/// The name under which the sockets of the admin listener are handed over. No listener of a configuration can have it.
inline constexpr char kAdminListener[] = "@admin";

/// The listening sockets of the process: for each address one per worker, or one for all workers if it is a Unix
/// socket. They stay open while configurations change, so that no connection is refused at an address that stays. For
/// the control thread.
class ListenSockets {
 public:
  explicit ListenSockets(unsigned workers) : workers_(workers) {}
  ~ListenSockets() { close(); }
  ListenSockets(const ListenSockets&) = delete;
  ListenSockets& operator=(const ListenSockets&) = delete;

  /// The permissions of the files of Unix sockets that open() makes, and, with keep_only(), of those that are there. 0:
  /// by the umask.
  void set_file_mode(uint32_t mode) { file_mode_ = mode; }
  /// Opens the sockets of the addresses that are not open: all of them, or none. The error is for the user.
  absl::Status open(const config::Config& config);
  /// Gives the sockets the options that `config` has for them, and closes those that no listener has.
  void keep_only(const config::Config& config);
  /// Returns the sockets of a listener for one worker, which owns them: one for each of `addresses`, which are those of
  /// the listener. Precondition: they are open.
  absl::StatusOr<std::vector<ListenSocket>> duplicate(const config::Listener& listener,
                                                      const std::vector<config::ListenAddress>& addresses,
                                                      unsigned worker) const;
  /// The addresses of a listener, as texts for the log. A port that the kernel chose is in the place of port 0.
  std::vector<std::string> bound_addresses(const config::Listener& listener,
                                           const std::vector<config::ListenAddress>& addresses) const;
  /// Adopts sockets that another process has opened, so that open() does not open them. Takes ownership of the
  /// descriptors unless it fails. The error is for the user.
  absl::Status inherit(const HandedSocket& socket);
  /// The same for sockets of a service manager (socket activation), which have no names of listeners.
  absl::Status inherit_passed(const std::vector<int>& fds);
  /// All sockets, for another process. The descriptors stay this object's.
  std::vector<HandedSocket> to_hand_over() const;
  /// Closes all, but leaves the files of Unix sockets to the process that has inherited the sockets.
  void leave();
  /// Closes all, and removes the files of Unix sockets. The sockets live on in the descriptors of workers.
  void close();

 private:
  struct Socket {
    std::string listener;  // With `ordinal`, it identifies the socket if the kernel chooses the port.
    config::ListenAddress at;
    size_t ordinal = 0;    // How many equal addresses come before it in the listener's list.
    std::vector<int> fds;  // By worker; of a Unix socket only one.
    // The file of a Unix socket, which is removed only if it is still this one.
    bool has_file = false;
    dev_t device = 0;
    ino_t inode = 0;
    void remember_file();
  };
  // One socket that a configuration wants.
  struct Wanted {
    const config::Listener& listener;
    config::ListenAddress at;
    size_t ordinal;
  };
  static std::vector<Wanted> wanted_by(const config::Config& config);
  static std::vector<Wanted> wanted_by(const config::Listener& listener,
                                       const std::vector<config::ListenAddress>& addresses);
  static bool is_of(const Socket& socket, const Wanted& wanted);
  Socket* find(const Wanted& wanted);
  const Socket* find(const Wanted& wanted) const { return const_cast<ListenSockets*>(this)->find(wanted); }
  absl::Status check_is_free(const config::ListenAddress& at) const;
  absl::Status open_one(const Wanted& wanted);
  absl::Status add_sockets(const Wanted& wanted, Socket& socket) const;
  static void close_one(const Socket& socket);

  const unsigned workers_;
  uint32_t file_mode_ = 0;
  std::vector<Socket> sockets_;
};

}  // namespace sluice
