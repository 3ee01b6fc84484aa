#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "net/socket.h"
#include "net/timer_wheel.h"
#include "net/worker.h"
#include "proxy/alts/handshaker_channel.h"
#include "proxy/config/model/address.h"

namespace sluice {

/// A HandshakerChannel on a socket.
class HandshakerConnection final : private Socket::Owner {
 public:
  class Owner {
   public:
    /// Something was received or sent: it may be ready now, or have room, or be leaving.
    virtual void on_progress(HandshakerConnection& connection) = 0;
    /// It closes; its calls have ended with `error`.
    virtual void on_lost(HandshakerConnection& connection, const std::string& error) = 0;
    /// It has closed: to be destroyed now.
    virtual void on_gone(HandshakerConnection& connection) = 0;

   protected:
    ~Owner() = default;
  };

  /// `service` is its address as it is configured.
  HandshakerConnection(Worker& worker, std::string_view service, Owner& owner);

  /// 0, and on_gone follows some time; or an errno, and nothing has happened.
  int connect(const config::Address& address);
  HandshakerChannel& channel() { return channel_; }
  const HandshakerChannel& channel() const { return channel_; }
  /// Whether the service has been reached, though it may have said nothing.
  bool connected() const { return connected_; }
  /// Sends what the channel has to say, and gives back memory where no call is under way.
  void flush();
  /// Ends it and its calls. No effect when it has ended.
  void close(const std::string& error);
  /// "the handshaker service ADDRESS ", and `what` became of it.
  std::string text(std::string_view what) const;

  /// Until the service has answered to a new connection.
  static constexpr uint64_t kAnswerMs = 5'000;
  /// Until it has acknowledged what was sent, at least by its TCP. Otherwise the connection is given up.
  static constexpr unsigned kSilentMs = 10'000;
  /// That may wait to be sent. What is more stays in the channel, where flow control bounds it.
  static constexpr size_t kMaxQueuedBytes = size_t{256} * 1024;

 private:
  // Socket::Owner
  void on_connected(Socket& socket, int error) override;
  void on_data(Socket& socket, Buffer&& data) override;
  void on_end(Socket& socket) override;
  void on_sent(Socket&) override { owner_.on_progress(*this); }
  void on_error(Socket& socket, int error) override;
  void on_closed(Socket& socket) override;

  Worker& worker_;
  Owner& owner_;
  const std::string service_;
  HandshakerChannel channel_;
  Timer deadline_;           // Of the first answer.
  config::Address address_;  // Which a connect() that is under way looks at.
  Socket socket_;
  bool connected_ = false;
};

}  // namespace sluice
