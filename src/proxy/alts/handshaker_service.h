#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "net/timer_wheel.h"
#include "net/worker.h"
#include "proxy/alts/handshaker_call.h"
#include "proxy/alts/handshaker_connection.h"
#include "proxy/alts/handshaker_lookup.h"
#include "proxy/config/model/resolve.h"

namespace sluice {

/// One worker's client of the HandshakerService at one address. It connects for the first call, and reconnects when a
/// call needs a connection that was lost; a name is looked up each time. Calls share a connection.
///
/// Each role (HandshakerCall::Role) has at most kMaxCalls open calls, as in gRPC's own clients of the service, so that
/// a crowd on one side does not block the other. Further calls wait in FIFO order, with no timeout here: their owners
/// give them up. If the service allows fewer calls, the roles take turns. While calls wait, an open call that has had
/// its response and no further request for kRestMs is ended: a silent peer must not occupy a place that others need.
///
/// Shutdown: `close()` ends all calls and the connection, which takes a few turns of the worker's loop. Destroy the
/// service, and stop the worker, only when `idle()`. A service that was never used is idle as soon as it is closed.
class HandshakerService final : public HandshakerCall::Service,
                                private HandshakerConnection::Owner,
                                private HandshakerLookup::Owner {
 public:
  using Role = HandshakerCall::Role;

  /// `lookup_threads` look up a name with the settings `resolve`. They must outlive the worker; null if `address` is
  /// not a name.
  HandshakerService(Worker& worker, const config::EndpointAddress& address, HelperThreads* lookup_threads = nullptr,
                    const config::Resolve& resolve = {});
  /// Precondition: idle(), and no HandshakerCall refers to the service.
  ~HandshakerService();
  HandshakerService(const HandshakerService&) = delete;
  HandshakerService& operator=(const HandshakerService&) = delete;

  /// Ends all calls and connections. Later calls fail.
  void close();
  bool idle() const { return closed_ && connections_.empty(); }

  Worker& worker() override { return worker_; }
  const std::string& address_text() const { return address_text_; }
  size_t open_calls(Role role) const { return side(role).open; }
  size_t waiting_calls(Role role) const { return side(role).waiting.size(); }

  /// Bound on the concurrent calls of each role.
  static constexpr size_t kMaxCalls = 100;
  static_assert(2 * kMaxCalls <= HandshakerChannel::kMaxStreams);
  /// How long a call may rest after a response while others wait.
  static constexpr uint64_t kRestMs = 1'000;
  /// The minimum time between the starts of two connections.
  static constexpr uint64_t kReconnectMs = 200;
  /// How long calls wait for room before calls that are done, and that the service should have ended, are reset.
  static constexpr uint64_t kResetDoneMs = 100;

 private:
  // The calls of one role.
  struct Side {
    std::list<HandshakerCall*> waiting;
    std::list<HandshakerCall*> resting;  // Calls between a response and the next request, oldest response first.
    size_t open = 0;

    bool has_place() const { return open < kMaxCalls; }
  };
  Side& side(Role role) { return sides_[static_cast<size_t>(role)]; }
  const Side& side(Role role) const { return sides_[static_cast<size_t>(role)]; }
  bool any_waiting() const;

  // HandshakerCall::Service
  void enqueue(HandshakerCall& call) override;
  bool enqueue_retry(HandshakerCall& call) override;
  void withdraw(HandshakerCall& call) override;
  void note_resting(HandshakerCall& call) override;
  void note_resumed(HandshakerCall& call) override;
  void note_end(HandshakerCall& call) override { --side(call.role_).open; }
  void update(HandshakerConnection& connection) override;

  // Admission of calls.
  void pump();
  void end_resting();
  HandshakerCall* longest_resting();
  void open_waiting();
  HandshakerCall* next_to_open();
  void make_room_later();
  void make_room();
  void fail_waiting(const std::string& error);

  // The connection.
  void connect();
  void connect_to_next();
  std::string text(std::string_view what) const;
  // HandshakerLookup::Owner
  void on_looked_up(HandshakerLookup::Result&& result) override;
  // HandshakerConnection::Owner
  void on_progress(HandshakerConnection& connection) override { update(connection); }
  void on_lost(HandshakerConnection& connection, const std::string& error) override;
  void on_gone(HandshakerConnection& connection) override;

  Worker& worker_;
  const config::EndpointAddress address_;
  const config::Resolve resolve_;
  const std::string address_text_;
  std::array<Side, 2> sides_;
  Role turn_ = Role::kClient;  // The role whose call is opened next if both have waiting calls.
  HandshakerLookup lookup_;
  std::vector<config::Address> addresses_;   // Not tried yet.
  HandshakerConnection* current_ = nullptr;  // Takes new calls. The other connections finish their calls, or close.
  std::vector<std::unique_ptr<HandshakerConnection>> connections_;
  std::optional<uint64_t> connected_ms_;  // When the last connection was started.
  Timer reconnect_;
  Timer make_room_;
  Timer rested_;  // Fires when the call that has rested longest reaches kRestMs.
  bool closed_ = false;
};

}  // namespace sluice
