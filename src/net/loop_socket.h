#pragma once

#include "net/ring.h"

namespace sluice {

/// A socket as the worker's loop sees it. Each one is a Socket, and socket.cc defines the functions. They are not
/// virtual: a pointer to a table of functions would enlarge each connection, and the loop calls them for each event.
class alignas(kTargetAlignment) LoopSocket {
 public:
  void complete(Op op, Completion completion);
  /// Submit a send or a receive if one is due.
  void submit_send();
  void submit_receive();
  /// Ends the service that the socket requested from the worker.
  void end_service();
  /// Takes the socket out of its list of parked sockets and submits a receive: the large (`bulk`) or the small group
  /// has a buffer again.
  void resume_parked(bool bulk);

 protected:
  LoopSocket() = default;
  ~LoopSocket() = default;

 private:
  friend class Worker;
  // Parked sockets form a list, first in, first out.
  LoopSocket* parked_next_ = nullptr;
  LoopSocket* parked_previous_ = nullptr;
};

}  // namespace sluice
