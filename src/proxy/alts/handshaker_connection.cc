#include "proxy/alts/handshaker_connection.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <cerrno>
#include <system_error>
#include <utility>

namespace sluice {

HandshakerConnection::HandshakerConnection(Worker& worker, std::string_view service, Owner& owner)
    : worker_(worker),
      owner_(owner),
      service_(service),
      channel_(worker.pool(), service),
      deadline_(
          [](void* self) {
            auto* const connection = static_cast<HandshakerConnection*>(self);
            connection->close(connection->text("did not respond in time"));
          },
          this),
      socket_(worker, *this) {}

std::string HandshakerConnection::text(std::string_view what) const {
  return "the handshaker service " + service_ + ' ' + std::string(what);
}

int HandshakerConnection::connect(const config::Address& address) {
  address_ = address;
  const int fd = ::socket(address_.family(), SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return errno;
  if (address_.kind() != config::Address::Kind::kUnix) {
    const int on = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &kSilentMs, sizeof kSilentMs);
  }
  worker_.timers().arm(deadline_, worker_.now_ms() + kSettingsTimeoutMs);
  socket_.connect(fd, address_.data(), address_.length());
  return 0;
}

void HandshakerConnection::flush() {
  if (!connected_ || !socket_.open()) return;
  while (socket_.queued() < kMaxQueuedBytes) {
    Buffer out;
    if (!channel_.produce(out, kMaxQueuedBytes - socket_.queued())) return close(channel_.error());
    if (out.empty()) break;
    socket_.send(std::move(out));
  }
  if (channel_.calls() == 0) channel_.park();
}

void HandshakerConnection::close(const std::string& error) {
  if (!socket_.open()) return;
  deadline_.cancel();
  socket_.close();
  channel_.fail(error);
  owner_.on_lost(*this, error);
}

void HandshakerConnection::on_connected(Socket&, int error) {
  if (error != 0) return close(text("cannot be reached: " + std::generic_category().message(error)));
  connected_ = true;
  socket_.start_reading();
  flush();
}

void HandshakerConnection::on_data(Socket&, Buffer&& data) {
  if (!socket_.open()) return;
  channel_.set_now(worker_.now_ms());
  if (!channel_.receive(std::move(data))) return close(channel_.error());
  if (channel_.ready()) deadline_.cancel();
  owner_.on_progress(*this);
}

void HandshakerConnection::on_end(Socket&) {
  close(channel_.farewell().empty() ? text("closed the connection") : channel_.farewell());
}

void HandshakerConnection::on_error(Socket&, int error) {
  close(channel_.farewell().empty() ? text("is no longer connected: " + std::generic_category().message(error))
                                    : channel_.farewell());
}

void HandshakerConnection::on_closed(Socket&) {
  worker_.defer(
      [](void* self) {
        auto* const connection = static_cast<HandshakerConnection*>(self);
        connection->owner_.on_gone(*connection);
      },
      this);
}

}  // namespace sluice
