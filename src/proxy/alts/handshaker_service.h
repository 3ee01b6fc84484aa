#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "net/slow_work.h"
#include "net/timer_wheel.h"
#include "net/worker.h"
#include "proxy/alts/handshaker_channel.h"
#include "proxy/config/address.h"

namespace sluice {

class HandshakerCall;

/// One worker's way to the HandshakerService at one address: connects when the first call is made, and again when a
/// connection was lost. Calls share a connection. Those beyond HandshakerChannel::kMaxCalls wait for their turn, first
/// in first out; how long is their owners' matter, who give them up. While some wait, a call whose owner has not gone
/// on with it for kRestMs ends: a peer that says nothing more must not take a place that others need.
///
/// Life: `close()` ends all calls and the connection, which takes a few turns of the worker's loop: destroy it, and let
/// the worker stop, when `idle()`. A service that was never used is idle once it is closed.
class HandshakerService {
 public:
  HandshakerService(Worker& worker, const config::Address& address);
  /// Precondition: idle(), and no HandshakerCall refers to it any more.
  ~HandshakerService();
  HandshakerService(const HandshakerService&) = delete;
  HandshakerService& operator=(const HandshakerService&) = delete;

  /// Ends what is under way; calls that come later fail.
  void close();
  bool idle() const { return closed_ && connections_.empty(); }

  const std::string& address_text() const { return address_text_; }
  size_t open_calls() const { return open_calls_; }
  size_t waiting_calls() const { return waiting_.size(); }

  /// Until the service has answered to a new connection.
  static constexpr uint64_t kAnswerMs = 5'000;
  /// Until it has acknowledged what was sent, at least by its TCP. Otherwise the connection is given up.
  static constexpr unsigned kSilentMs = 10'000;
  /// How long a call may rest, answered, while others wait.
  static constexpr uint64_t kRestMs = 1'000;
  /// From the beginning of one connection to that of the next.
  static constexpr uint64_t kReconnectMs = 200;
  /// That calls wait for room before those are reset that the service should have ended.
  static constexpr uint64_t kGiveWayMs = 100;
  /// That may wait to be sent. What is more stays in the channel, where flow control bounds it.
  static constexpr size_t kMaxQueuedBytes = size_t{256} * 1024;

 private:
  friend class HandshakerCall;
  struct Connection;

  void enqueue(HandshakerCall& call);
  void withdraw(HandshakerCall& call);
  void pump();
  void end_resting();
  bool has_room() const;
  void connect();
  void flush(Connection& connection);
  void drop(Connection& connection, const std::string& error);
  void look_after(Connection& connection);
  void forget(Connection& connection);
  void fail_waiting(const std::string& error);
  void make_room();

  Worker& worker_;
  const config::Address address_;
  const std::string address_text_;
  std::list<HandshakerCall*> waiting_;
  std::list<HandshakerCall*> resting_;  // Answered, by when.
  size_t open_calls_ = 0;
  Connection* current_ = nullptr;  // For new calls. Others go on with theirs, or close.
  std::vector<std::unique_ptr<Connection>> connections_;
  std::optional<uint64_t> connected_ms_;  // When the last connection was begun.
  Timer reconnect_;
  Timer make_room_;
  Timer rested_;          // The first of those that rest has done so for long enough.
  bool pumping_ = false;  // What it does may ask for it again.
  bool closed_ = false;
};

/// A call of DoHandshake. Made when a handshake begins; what is still under way when it is destroyed is cancelled.
///
///     call.send(request);                       // later `wake` is queued as the worker's slow work:
///     if (auto response = call.take_response()) ...
///     else if (!call.error().empty()) ...
class HandshakerCall final : private HandshakerChannel::Caller {
 public:
  HandshakerCall(HandshakerService& service, SlowWork& wake) : service_(service), wake_(wake) {}
  ~HandshakerCall() { close(/*done=*/false); }
  HandshakerCall(const HandshakerCall&) = delete;
  HandshakerCall& operator=(const HandshakerCall&) = delete;

  /// One request at a time. No effect when the call has failed.
  void send(std::string request);
  std::optional<std::string> take_response() { return std::exchange(response_, std::nullopt); }
  /// Why the call is over; a response that came before may still be taken. Empty while it is not.
  const std::string& error() const { return error_; }
  /// There is no more to ask.
  void finish() { close(/*done=*/true); }

 private:
  friend class HandshakerService;
  void on_response(std::string&& response) override;
  void on_end(std::string error, bool untouched) override;
  void fail(std::string error);
  void close(bool done);
  void go_on();

  HandshakerService& service_;
  SlowWork& wake_;
  HandshakerService::Connection* connection_ = nullptr;
  std::optional<std::list<HandshakerCall*>::iterator> place_;  // Among those that wait,
  std::optional<std::list<HandshakerCall*>::iterator> rest_;   // or rest.
  std::string request_;                                        // Kept until it is answered.
  std::optional<std::string> response_;
  std::string error_;
  uint64_t answered_ms_ = 0;
  bool answered_ = false;
  bool repeated_ = false;
};

}  // namespace sluice
