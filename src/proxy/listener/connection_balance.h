#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <vector>

#include "net/worker.h"

namespace sluice {

/// Spreads the connections of one listener evenly over the workers. The kernel chooses the worker that accepts a
/// connection by a hash of its addresses, whatever the workers have (or, on a Unix socket, by who waits first). A
/// worker that clearly has more connections than another one hands a new connection over.
///
/// Only a connection that is handed over takes a lock. See docs/internals/decisions/connection-balance.md.
class ConnectionBalance {
 public:
  /// An accepted connection.
  struct Accepted {
    int fd = -1;
    int family = 0;  ///< Of the listening socket.
  };
  class Member;

  explicit ConnectionBalance(unsigned workers) : counts_(workers), members_(workers) {}

  /// The worker that should have a connection which `own` has accepted: the one that has the fewest, if `own` clearly
  /// has more, else `own`.
  unsigned worker_for_new(unsigned own) const;

 private:
  std::vector<std::atomic<uint32_t>> counts_;  // Connections by worker, those that wait for it included.
  std::mutex mutex_;                           // Guards members_, and what each has of others.
  std::vector<Member*> members_;               // By worker; null: takes none.
};

/// One worker's part of a ConnectionBalance. Used on the worker's own thread. The balance, the worker and the owner
/// outlive it.
class ConnectionBalance::Member final : private Message {
 public:
  class Owner {
   public:
    /// The owner takes over the descriptor.
    virtual void on_handed_over(Accepted connection) = 0;

   protected:
    ~Owner() = default;
  };
  Member(ConnectionBalance& balance, Worker& worker, Owner& owner);
  ~Member();

  /// Takes connections from other workers from now on.
  void join();
  /// Takes none from now on. The owner gets those that wait.
  void leave();
  /// Precondition of destruction: has left, and nothing is on its way from another worker.
  bool idle() const;

  /// Whether another worker gets the connection, which is counted there. It takes over the descriptor.
  bool hand_over(Accepted connection);
  /// Counts one connection of this worker more or less.
  void opened() { count().fetch_add(1, std::memory_order_relaxed); }
  void closed() { count().fetch_sub(1, std::memory_order_relaxed); }

 private:
  std::atomic<uint32_t>& count() { return balance_.counts_[worker_.index()]; }
  void on_message();
  void take_waiting();

  ConnectionBalance& balance_;
  Worker& worker_;
  Owner& owner_;
  std::vector<Accepted> waiting_;  // From other workers. Guarded by the balance's mutex.
  bool notified_ = false;          // This message is posted, and has not run. Likewise.
  std::vector<Accepted> taken_;    // Keeps its capacity for the next ones.
};

}  // namespace sluice
