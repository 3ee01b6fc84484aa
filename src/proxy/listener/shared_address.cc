#include "proxy/listener/shared_address.h"

#include <algorithm>

#include "proxy/config/model/config.h"
#include "proxy/config/model/units.h"

namespace sluice {

namespace {

// Where no listener awaits a ClientHello any more.
constexpr uint64_t kLastHelloMs = 10'000;

// How long the listener gives a ClientHello that it awaits; UINT64_MAX if it awaits none.
uint64_t hello_ms_of(const config::Listener& listener) {
  if (listener.tls) return config::milliseconds(listener.tls->handshake_timeout);
  return listener.tcp ? config::milliseconds(listener.tcp->inspect_timeout) : UINT64_MAX;
}

}  // namespace

void SharedAddress::set(const std::vector<Sharer>& sharers) {
  acceptors_.clear();
  hello_ms_ = UINT64_MAX;
  bool http = false, other = false;
  std::vector<const config::Listener*> listeners;
  for (const Sharer& each : sharers) {
    acceptors_.push_back(each.acceptor);
    listeners.push_back(each.listener);
    hello_ms_ = std::min(hello_ms_, hello_ms_of(*each.listener));
    (each.listener->http ? http : other) = true;
  }
  if (hello_ms_ == UINT64_MAX) hello_ms_ = kLastHelloMs;
  mixed_ = http && other;
  names_ = ListenerNames(listeners);
}

}  // namespace sluice
