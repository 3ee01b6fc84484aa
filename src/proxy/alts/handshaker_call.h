#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <optional>
#include <string>
#include <utility>

#include "net/yielding_task.h"
#include "proxy/alts/handshaker_channel.h"

namespace sluice {

class HandshakerConnection;
class HandshakerService;

/// A call of DoHandshake, one for each handshake. Its destruction cancels a call in progress.
///
///     call.send(request);                       // later, `wake` is queued as the worker's slow work:
///     if (auto response = call.take_response()) ...
///     else if (!call.error().empty()) ...
class HandshakerCall final : private HandshakerChannel::Caller {
 public:
  /// Our side in the handshake. Each role has its own bound on calls.
  enum class Role : uint8_t { kClient, kServer };

  /// `service` and `wake` must outlive the call.
  HandshakerCall(HandshakerService& service, Role role, YieldingTask& wake)
      : service_(service), wake_(wake), role_(role) {}
  ~HandshakerCall();
  HandshakerCall(const HandshakerCall&) = delete;
  HandshakerCall& operator=(const HandshakerCall&) = delete;

  /// Sends a request. Only one may be in flight. No effect when the call has failed.
  void send(std::string request);
  std::optional<std::string> take_response() { return std::exchange(response_, std::nullopt); }
  /// The reason why the call has ended; empty while it has not. A response that arrived before may still be taken.
  const std::string& error() const { return error_; }
  /// Ends the call normally: there are no more requests.
  void finish() { close(/*done=*/true); }

 private:
  friend class HandshakerService;
  using Place = std::optional<std::list<HandshakerCall*>::iterator>;

  void on_response(std::string&& response) override;
  void on_end(std::string error, bool untouched) override;
  void open(HandshakerConnection& connection);
  void fail(std::string error);
  void close(bool done);
  /// Ends the call. Returns the connection that it was on, or null if it was not open.
  HandshakerConnection* leave(bool done);
  void stop_resting();

  HandshakerService& service_;
  YieldingTask& wake_;
  HandshakerConnection* connection_ = nullptr;  // Null while the call is not open.
  Place waiting_at_;                            // Its place among the waiting calls of its role.
  Place resting_at_;                            // Its place among the resting calls of its role.
  std::string request_;                         // Kept for a retry until its response arrives.
  std::optional<std::string> response_;
  std::string error_;
  uint64_t responded_ms_ = 0;
  const Role role_;
  bool responded_ = false;
  bool retried_ = false;
};

}  // namespace sluice
