#pragma once

namespace sluice {

/// One accepted connection and all the work done for it.
class Session {
 public:
  /// Ends the session now: the time to drain is over.
  virtual void shut_down() = 0;
  /// Ends the session as soon as it has nothing in progress.
  virtual void drain() {}
  /// Called while memory is short. Pauses or ends the session if it holds more than its share. Returns true if the
  /// session needs another review.
  virtual bool review_memory() { return false; }

  // Links of the acceptor's list of sessions.
  Session* next = nullptr;
  Session* previous = nullptr;

 protected:
  ~Session() = default;
};

}  // namespace sluice
