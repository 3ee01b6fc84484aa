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

/// One worker's way to the HandshakerService at one address: connects when the first call is made, and again when a
/// connection was lost; a name is looked up each time. Calls share a connection.
///
/// Of each role (HandshakerCall::Role) kMaxCalls go at a time, as in gRPC's own clients of the service; a crowd on one
/// side keeps nobody out on the other. Those beyond wait for their turn, first in first out; how long is their owners'
/// matter, who give them up. Where the service bears fewer, the roles take turns. While some wait, a call whose owner
/// has not gone on with it for kRestMs ends: a peer that says nothing more must not take a place that others need.
///
/// Life: `close()` ends all calls and the connection, which takes a few turns of the worker's loop: destroy it, and let
/// the worker stop, when `idle()`. A service that was never used is idle once it is closed.
class HandshakerService final : private HandshakerConnection::Owner, private HandshakerLookup::Owner {
 public:
  using Role = HandshakerCall::Role;

  /// `lookup_threads`, on which a name is looked up by `resolve`, outlive the worker; null where there are no names.
  HandshakerService(Worker& worker, const config::EndpointAddress& address, HelperThreads* lookup_threads = nullptr,
                    const config::Resolve& resolve = {});
  /// Precondition: idle(), and no HandshakerCall refers to it any more.
  ~HandshakerService();
  HandshakerService(const HandshakerService&) = delete;
  HandshakerService& operator=(const HandshakerService&) = delete;

  /// Ends what is under way; calls that come later fail.
  void close();
  bool idle() const { return closed_ && connections_.empty(); }

  Worker& worker() { return worker_; }
  const std::string& address_text() const { return address_text_; }
  size_t open_calls(Role role) const { return side(role).open; }
  size_t waiting_calls(Role role) const { return side(role).waiting.size(); }

  /// At a time, of each role.
  static constexpr size_t kMaxCalls = 100;
  static_assert(2 * kMaxCalls <= HandshakerChannel::kMaxStreams);
  /// How long a call may rest, answered, while others wait.
  static constexpr uint64_t kRestMs = 1'000;
  /// From the beginning of one connection to that of the next.
  static constexpr uint64_t kReconnectMs = 200;
  /// That calls wait for room before those are reset that the service should have ended.
  static constexpr uint64_t kGiveWayMs = 100;

 private:
  friend class HandshakerCall;
  // The calls of one role.
  struct Side {
    std::list<HandshakerCall*> waiting;
    std::list<HandshakerCall*> resting;  // Answered, by when.
    size_t open = 0;

    bool has_place() const { return open < kMaxCalls; }
  };
  Side& side(Role role) { return sides_[static_cast<size_t>(role)]; }
  const Side& side(Role role) const { return sides_[static_cast<size_t>(role)]; }
  bool some_wait() const;

  // What calls say of themselves.
  void enqueue(HandshakerCall& call);
  bool enqueue_again(HandshakerCall& call);
  void withdraw(HandshakerCall& call);
  void note_rest(HandshakerCall& call);
  void note_going_on(HandshakerCall& call);
  void note_end(HandshakerCall& call) { --side(call.role_).open; }
  void look_after(HandshakerConnection& connection);

  // Places.
  void pump();
  void end_resting();
  HandshakerCall* in_the_way();
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
  void on_looked_up(HandshakerLookup::Answer&& answer) override;
  // HandshakerConnection::Owner
  void on_progress(HandshakerConnection& connection) override { look_after(connection); }
  void on_lost(HandshakerConnection& connection, const std::string& error) override;
  void on_gone(HandshakerConnection& connection) override;

  Worker& worker_;
  const config::EndpointAddress address_;
  const config::Resolve resolve_;
  const std::string address_text_;
  std::array<Side, 2> sides_;
  Role turn_ = Role::kClient;  // Whose call is opened next, where both wait.
  HandshakerLookup lookup_;
  std::vector<config::Address> addresses_;   // To be tried next.
  HandshakerConnection* current_ = nullptr;  // For new calls. Others go on with theirs, or close.
  std::vector<std::unique_ptr<HandshakerConnection>> connections_;
  std::optional<uint64_t> connected_ms_;  // When the last connection was begun.
  Timer reconnect_;
  Timer make_room_;
  Timer rested_;  // The first of those that rest has done so for long enough.
  bool closed_ = false;
};

}  // namespace sluice
