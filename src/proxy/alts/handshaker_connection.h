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

/// A HandshakerChannel on a socket. `owner` must outlive it.
class HandshakerConnection final : private Socket::Owner {
 public:
  class Owner {
   public:
    /// Bytes were received or sent: the channel may now be ready, have room, or be leaving.
    virtual void on_progress(HandshakerConnection& connection) = 0;
    /// The connection is closing; its calls have ended with `error`.
    virtual void on_lost(HandshakerConnection& connection, const std::string& error) = 0;
    /// The connection has closed. The owner must destroy it now.
    virtual void on_gone(HandshakerConnection& connection) = 0;

   protected:
    ~Owner() = default;
  };

  /// `service` is the configured address, for errors and requests.
  HandshakerConnection(Worker& worker, std::string_view service, Owner& owner);

  /// Starts to connect. Returns 0, and on_gone() follows eventually; or an errno, with nothing started.
  int connect(const config::Address& address);
  HandshakerChannel& channel() { return channel_; }
  const HandshakerChannel& channel() const { return channel_; }
  /// Whether the connection to the service is established, although the service may not have sent anything.
  bool connected() const { return connected_; }
  /// Sends the channel's output, and frees memory if no call is in progress.
  void flush();
  /// Closes the connection and ends its calls with `error`. No effect on a closed one.
  void close(const std::string& error);
  /// "the handshaker service ADDRESS " followed by `what`.
  std::string text(std::string_view what) const;

  /// Timeout from connecting to the service's HTTP/2 settings.
  static constexpr uint64_t kSettingsTimeoutMs = 5'000;
  /// Timeout for the TCP acknowledgment of sent bytes (TCP_USER_TIMEOUT). The connection then fails.
  static constexpr unsigned kSilentMs = 10'000;
  /// Bound on the bytes queued in the socket. The rest stays in the channel, where flow control bounds it.
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
  Timer deadline_;           // Armed until the service has sent its settings.
  config::Address address_;  // The kernel reads it while it connects.
  Socket socket_;
  bool connected_ = false;
};

}  // namespace sluice
