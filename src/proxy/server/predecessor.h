#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "proxy/listener/moving_session.h"
#include "proxy/server/handed_values.h"
#include "proxy/server/handover_channel.h"
#include "proxy/tls/ticket_keys.h"

namespace sluice {

/// The process that has started this one in an upgrade, as this one sees it.
class Predecessor {
 public:
  /// Must be called first, before there are threads. If an upgrade has started this process, continues in a child and
  /// ends the parent: a service manager supervises only its own children, and becomes the parent of the child.
  static absl::Status leave_parent();
  /// Null if this process was not started by an upgrade. The error is for the user.
  static absl::StatusOr<std::unique_ptr<Predecessor>> find();

  /// Adopts the sockets of an address. Takes ownership of the descriptors unless it fails. The error is for the user.
  using Inherit = std::function<absl::Status(const HandedSocket& socket)>;
  /// Receives what this process needs to start: the listening sockets, the random keys of session tickets, and
  /// `earlier`, the processes before that one that still have sessions. The error is for the user.
  absl::Status take_over(const Inherit& inherit, TicketKeys& keys, std::vector<std::unique_ptr<Predecessor>>& earlier);
  /// Reports that this process accepts connections.
  void report_ready() { (void)channel_.send(HandoverType::kReady); }
  /// Reports that this process cannot start.
  void report_failure(std::string_view why) { (void)channel_.send(HandoverType::kFailed, why); }
  /// Reports that this process is shutting down.
  void report_leaving() { (void)channel_.send(HandoverType::kLeaving); }

  /// Readable if exchange() has something to do.
  int fd() const { return channel_.fd(); }
  /// Takes the sessions that have arrived, at most kAtOnce. `take` returns false if this process cannot continue a
  /// session; it then must not have used the descriptors. False: the process has ended, or has sent something else.
  bool exchange(const std::function<bool(MovingSession& session)>& take);
  uint64_t sessions_taken() const { return taken_; }

 private:
  static constexpr int kAtOnce = 64;

  explicit Predecessor(int fd) : channel_(fd) {}

  HandoverChannel channel_;
  uint64_t taken_ = 0;
};

}  // namespace sluice
