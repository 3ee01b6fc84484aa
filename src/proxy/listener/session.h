#pragma once

#include "proxy/common/peer_address.h"
#include "proxy/listener/connection_facts.h"
#include "proxy/metrics/l4_counters.h"

namespace sluice {

/// One accepted connection and all the work done for it.
class Session {
 public:
  virtual SessionKind kind() const = 0;
  /// Ends the session now: the time to drain is over. Returns false if it had ended already.
  virtual bool shut_down() = 0;
  /// Ends the session as soon as it has nothing in progress.
  virtual void drain() {}
  /// Begins to leave for another process, if the session is in a state in which it can. Departures::depart() follows,
  /// unless something comes between. False: not now.
  virtual bool move_out() { return false; }
  /// What keeps it from moving out now.
  virtual StayReason stay_reason() const { return StayReason::kEnding; }
  /// Called while memory is short. Pauses or ends the session if it holds more than its share. Returns true if the
  /// session needs another review.
  virtual bool review_memory() { return false; }

  /// Bytes that the client has sent or acknowledged so far. A system call.
  virtual uint64_t transferred_bytes() const { return 0; }
  /// Ends the session now, because memory is nearly used up. Returns false if it had ended already.
  virtual bool close_for_memory() { return false; }

  // For the table of connections.
  virtual ConnectionFacts facts() const { return {}; }
  virtual void add_details(ConnectionDetails& /*details*/) const {}
  /// The client, as far as it is known. May be a system call.
  virtual PeerAddress peer() const { return {}; }

  // Links of the acceptor's list of sessions.
  Session* next = nullptr;
  Session* previous = nullptr;

 protected:
  ~Session() = default;
};

}  // namespace sluice
