#pragma once

namespace sluice {

/// A connection that an acceptor has accepted, with all that is done for it.
class Session {
 public:
  /// Ends it now: the time to drain is over.
  virtual void shut_down() = 0;
  /// Ends it as soon as nothing is under way.
  virtual void drain() {}

  // Sessions of an acceptor form a list, so that it can reach them.
  Session* next = nullptr;
  Session* previous = nullptr;

 protected:
  ~Session() = default;
};

}  // namespace sluice
