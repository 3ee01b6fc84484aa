#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/functional/function_ref.h"
#include "net/timer_wheel.h"
#include "net/worker.h"
#include "proxy/listener/client_acceptor.h"
#include "proxy/listener/connection_table.h"

namespace sluice {

/// Fills one worker's part of a ConnectionTable, some connections in each millisecond, so that no connection waits for
/// it. On the worker's thread.
///
/// A connection that moves to another acceptor meanwhile may be missing.
class ConnectionLister {
 public:
  /// The work of one turn: so many connections, or a fourth of them if each becomes a row. A fraction of a millisecond.
  static constexpr size_t kTurnUnits = 400;

  /// `visit` calls a function for each acceptor of the worker; it is called with `context`. All of them outlive it.
  using VisitAcceptors = void (*)(void* context, absl::FunctionRef<void(ClientAcceptor&)> function);
  ConnectionLister(Worker& worker, unsigned index, VisitAcceptors visit, void* context);

  /// Begins to fill the part of this worker. A table in progress is given up; its part never becomes complete.
  void begin(std::shared_ptr<ConnectionTable> table);

 private:
  void list_some();

  Worker& worker_;
  const unsigned index_;
  const VisitAcceptors visit_;
  void* const context_;
  std::shared_ptr<ConnectionTable> table_;  // In progress.
  Timer timer_;
};

}  // namespace sluice
