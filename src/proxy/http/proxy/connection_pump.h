#pragma once

#include <cstdint>

#include "net/timer_wheel.h"
#include "net/worker.h"
#include "proxy/http/message/codec.h"

namespace sluice {

class ConnectionPump;

/// A connection whose codec is flushed at the end of the turn.
class PumpedConnection {
 protected:
  PumpedConnection() = default;
  ~PumpedConnection() = default;
  PumpedConnection(const PumpedConnection&) = delete;
  PumpedConnection& operator=(const PumpedConnection&) = delete;

 private:
  friend class ConnectionPump;
  PumpedConnection* next_awake_ = nullptr;

 protected:
  bool awake_ = false;    // In a list of the pump.
  bool resumed_ = false;  // Input that the codec held back for this turn is parsed now.
};

/// The connections of a worker with work at the end of the turn, and how much of it a turn has time for.
class ConnectionPump {
 public:
  using Pump = bool (*)(PumpedConnection& connection);

  /// `pump` does what was scheduled for a connection. It returns false if that was only to end one whose peer is gone.
  ConnectionPump(Worker& loop, Pump pump);
  ~ConnectionPump();
  ConnectionPump(const ConnectionPump&) = delete;
  ConnectionPump& operator=(const ConnectionPump&) = delete;

  void wake(PumpedConnection& connection);
  /// Pumps the connection again once the head budget allows it, in this turn of the loop or a later one.
  void pump_later(PumpedConnection& connection);
  void forget(PumpedConnection& connection);
  /// Whether a connection with so many streams may end in this turn; takes its share of the turn.
  bool may_end(uint32_t streams);
  /// For the connections of clients.
  HttpCodec::HeadBudget& head_budget() { return head_budget_; }

 private:
  struct List {
    void push(PumpedConnection& connection);
    PumpedConnection* pop();
    bool remove(PumpedConnection& connection);
    PumpedConnection* first = nullptr;
    PumpedConnection* last = nullptr;
  };
  void pump_all();
  void schedule();

  Worker& loop_;
  const Pump pump_;
  List awake_;
  List later_;
  Timer later_timer_;
  HttpCodec::HeadBudget head_budget_;
  bool due_ = false;
};

}  // namespace sluice
