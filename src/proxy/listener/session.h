#pragma once

namespace sluice {

/// A connection that an acceptor has accepted, with all that is done for it.
class Session {
 public:
  /// Ends it now: the time to drain is over.
  virtual void shut_down() = 0;
  /// Ends it as soon as nothing is under way.
  virtual void drain() {}
  /// Memory is short: pauses or ends itself if it holds more than its share. True while it is to be reviewed further.
  virtual bool review_memory() { return false; }

  // Sessions of an acceptor form a list, so that it can reach them.
  Session* next = nullptr;
  Session* previous = nullptr;

 protected:
  ~Session() = default;
};

}  // namespace sluice
