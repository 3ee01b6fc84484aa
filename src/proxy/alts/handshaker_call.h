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
class Worker;

/// A call of DoHandshake, one for each handshake. Its destruction cancels a call in progress.
///
///     call.send(request);                       // later, `wake` is queued as the worker's slow work:
///     if (auto response = call.take_response()) ...
///     else if (!call.error().empty()) ...
class HandshakerCall final : private HandshakerChannel::Caller {
 public:
  /// Our side in the handshake. Each role has its own bound on calls.
  enum class Role : uint8_t { kClient, kServer };

  /// What a call asks of its service, and reports to it.
  class Service {
   public:
    virtual Worker& worker() = 0;
    /// The call waits until the service opens it or makes it fail, perhaps before this returns.
    virtual void enqueue(HandshakerCall& call) = 0;
    /// The same, but the call waits ahead of the others, and nothing happens before this returns. Returns false if the
    /// service is closed.
    virtual bool enqueue_retry(HandshakerCall& call) = 0;
    /// The call no longer waits.
    virtual void withdraw(HandshakerCall& call) = 0;
    /// The call has had its response, and is at rest until the next request.
    virtual void note_resting(HandshakerCall& call) = 0;
    virtual void note_resumed(HandshakerCall& call) = 0;
    /// The open call has ended.
    virtual void note_end(HandshakerCall& call) = 0;
    /// Updates the service after a call on this connection has ended.
    virtual void update(HandshakerConnection& connection) = 0;

   protected:
    ~Service() = default;
  };

  /// `service` and `wake` must outlive the call.
  HandshakerCall(Service& service, Role role, YieldingTask& wake) : service_(service), wake_(wake), role_(role) {}
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

  Service& service_;
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
