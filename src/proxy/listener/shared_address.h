#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "proxy/router/listener_names.h"

namespace sluice {

class ClientAcceptor;
namespace config {
struct Listener;
}

/// The listeners that share their addresses, on one worker: which of them a server name belongs to. All of them have
/// the same addresses, and one of them accepts for all. It outlives the configurations, so a connection whose listener
/// is not chosen yet gets one of the present configuration.
class SharedAddress {
 public:
  struct Sharer {
    ClientAcceptor* acceptor;
    const config::Listener* listener;
  };
  /// Finds the listener of an accepted connection, and passes it on. Takes ownership of the descriptor.
  using Choose = void (*)(ClientAcceptor& acceptor, int fd, int family);

  explicit SharedAddress(Choose how) : choose_(how) {}

  /// Sets the listeners of the present configuration at these addresses, in its order. None: the addresses are gone.
  void set(const std::vector<Sharer>& sharers);
  void choose(ClientAcceptor& acceptor, int fd, int family) const { choose_(acceptor, fd, family); }

  /// The acceptor of the listener that a server name belongs to, or null: see ListenerNames.
  ClientAcceptor* find(std::string_view name) const { return at(names_.find(name)); }
  /// The one without names, or else the first. Null if there is none.
  ClientAcceptor* first() const { return at(names_.rest() == ListenerNames::kNone ? 0 : names_.rest()); }
  /// Whether no listener has the addresses any more.
  bool gone() const { return acceptors_.empty(); }
  /// How long a ClientHello may take: the shortest time that one of the listeners gives it.
  uint64_t hello_ms() const { return hello_ms_; }
  /// Whether some of the listeners are for HTTP, and others are not.
  bool mixed() const { return mixed_; }

 private:
  ClientAcceptor* at(size_t index) const { return index < acceptors_.size() ? acceptors_[index] : nullptr; }

  const Choose choose_;
  std::vector<ClientAcceptor*> acceptors_;
  ListenerNames names_;  // Of acceptors_.
  uint64_t hello_ms_ = 0;
  bool mixed_ = false;
};

}  // namespace sluice
