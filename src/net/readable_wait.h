#pragma once

#include "net/ring.h"

namespace sluice {

/// Waits until a connected descriptor has something to receive, and leaves it in the kernel: nothing is received. The
/// owner receives by itself, or passes the descriptor on. The ring and the owner outlive it.
class alignas(kTargetAlignment) ReadableWait {
 public:
  class Owner {
   public:
    /// The wait is over, also after cancel(). `ended`: the peer has ended its direction, the connection is broken, or
    /// the wait was canceled. May destroy the ReadableWait.
    virtual void on_readable(bool ended) = 0;

   protected:
    ~Owner() = default;
  };

  ReadableWait(Ring& ring, Owner& owner) : ring_(ring), owner_(owner) {}
  ~ReadableWait();
  ReadableWait(const ReadableWait&) = delete;
  ReadableWait& operator=(const ReadableWait&) = delete;

  /// Precondition: !waiting().
  void begin(int fd);
  bool waiting() const { return waiting_; }
  /// Ends the wait early: Owner::on_readable() follows. Precondition: waiting().
  void cancel();

  void complete(Completion completion);

 private:
  Ring& ring_;
  Owner& owner_;
  bool waiting_ = false;
};

}  // namespace sluice
