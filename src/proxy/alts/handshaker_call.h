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

/// A call of DoHandshake. Made when a handshake begins; what is still under way when it is destroyed is cancelled.
///
///     call.send(request);                       // later `wake` is queued as the worker's slow work:
///     if (auto response = call.take_response()) ...
///     else if (!call.error().empty()) ...
class HandshakerCall final : private HandshakerChannel::Caller {
 public:
  /// Whose side of the connection is shaken hands for: each has a bound of its own.
  enum class Role : uint8_t { kClient, kServer };

  /// `service` and `wake` must outlive this.
  HandshakerCall(HandshakerService& service, Role role, YieldingTask& wake)
      : service_(service), wake_(wake), role_(role) {}
  ~HandshakerCall();
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
  using Place = std::optional<std::list<HandshakerCall*>::iterator>;

  void on_response(std::string&& response) override;
  void on_end(std::string error, bool untouched) override;
  void open(HandshakerConnection& connection);
  void fail(std::string error);
  void close(bool done);
  /// The connection that it has left, if it was on one.
  HandshakerConnection* leave(bool done);
  void go_on();

  HandshakerService& service_;
  YieldingTask& wake_;
  HandshakerConnection* connection_ = nullptr;  // While it is open.
  Place place_;                                 // Among those of its role that wait,
  Place rest_;                                  // or rest.
  std::string request_;                         // Kept until it is answered.
  std::optional<std::string> response_;
  std::string error_;
  uint64_t answered_ms_ = 0;
  const Role role_;
  bool answered_ = false;
  bool repeated_ = false;
};

}  // namespace sluice
