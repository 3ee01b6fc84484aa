#include "proxy/alts/handshaker_service.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <system_error>

#include "net/socket.h"
#include "pool/check.h"

namespace sluice {

namespace {

std::string reason_of(int error) { return std::generic_category().message(error); }

}  // namespace

struct HandshakerService::Connection final : Socket::Owner {
  explicit Connection(HandshakerService& owner)
      : service(owner),
        channel(owner.address_text_),
        deadline([](void* self) { static_cast<Connection*>(self)->no_answer(); }, this),
        socket(owner.worker_, *this) {}

  void on_connected(Socket&, int error) override {
    if (error != 0) return service.drop(*this, text("cannot be reached: " + reason_of(error)));
    connected = true;
    socket.start_reading();
    service.flush(*this);
  }
  void on_data(Socket&, Buffer&& data) override {
    if (!socket.open()) return;
    if (!channel.receive(std::move(data))) return service.drop(*this, channel.error());
    if (channel.ready()) deadline.cancel();
    service.look_after(*this);
  }
  void on_end(Socket&) override { service.drop(*this, text("closed the connection")); }
  void on_sent(Socket&) override { service.look_after(*this); }
  void on_error(Socket&, int error) override {
    service.drop(*this, text("is no longer connected: " + reason_of(error)));
  }
  void on_closed(Socket&) override {
    service.worker_.defer(
        [](void* self) {
          auto* const connection = static_cast<Connection*>(self);
          connection->service.forget(*connection);
        },
        this);
  }
  void no_answer() { service.drop(*this, text("does not answer")); }
  std::string text(const std::string& what) const {
    return "the handshaker service " + service.address_text_ + ' ' + what;
  }

  HandshakerService& service;
  HandshakerChannel channel;
  Timer deadline;  // Of the first answer.
  Socket socket;
  bool connected = false;
};

HandshakerService::HandshakerService(Worker& worker, const config::Address& address)
    : worker_(worker),
      address_(address),
      address_text_(address.text()),
      reconnect_([](void* self) { static_cast<HandshakerService*>(self)->pump(); }, this),
      make_room_([](void* self) { static_cast<HandshakerService*>(self)->make_room(); }, this),
      rested_([](void* self) { static_cast<HandshakerService*>(self)->pump(); }, this) {}

HandshakerService::~HandshakerService() { SLUICE_CHECK(idle() && waiting_.empty()); }

void HandshakerService::close() {
  if (std::exchange(closed_, true)) return;
  reconnect_.cancel();
  make_room_.cancel();
  rested_.cancel();
  const std::string error = "the handshaker service " + address_text_ + " is no longer asked: the proxy ends";
  fail_waiting(error);
  // A connection that has no descriptor yet does not exist, so each hears on_closed.
  for (const auto& connection : connections_) drop(*connection, error);
}

void HandshakerService::enqueue(HandshakerCall& call) {
  if (closed_) return call.fail("the handshaker service " + address_text_ + " is no longer asked: the proxy ends");
  call.place_ = waiting_.insert(waiting_.end(), &call);
  pump();
}

void HandshakerService::withdraw(HandshakerCall& call) {
  waiting_.erase(*call.place_);
  call.place_.reset();
}

bool HandshakerService::has_room() const {
  return open_calls_ < HandshakerChannel::kMaxCalls && (!current_ || current_->channel.has_room());
}

// Ends calls that have rested for too long, as far as others wait for their places.
void HandshakerService::end_resting() {
  while (!waiting_.empty() && !has_room() && !resting_.empty()) {
    HandshakerCall& call = *resting_.front();
    const uint64_t end = call.answered_ms_ + kRestMs;
    if (worker_.now_ms() < end) return worker_.timers().arm(rested_, end);
    call.close(/*done=*/false);
    call.fail("the peer has said nothing for a second, and others wait for the handshaker service " + address_text_);
  }
}

// Opens the calls for which there is room.
void HandshakerService::pump() {
  if (std::exchange(pumping_, true)) return;
  end_resting();
  while (!waiting_.empty() && has_room()) {
    if (!current_) {
      connect();
      break;
    }
    if (!current_->channel.ready()) break;
    HandshakerCall& call = *waiting_.front();
    withdraw(call);
    call.connection_ = current_;
    ++open_calls_;
    current_->channel.open(call, call.request_);
  }
  pumping_ = false;
  if (!current_) return;
  if (!waiting_.empty() && current_->channel.has_done() && !make_room_.armed()) {
    worker_.timers().arm(make_room_, worker_.now_ms() + kGiveWayMs);
  }
  flush(*current_);
}

void HandshakerService::make_room() {
  if (!current_) return;
  if (!waiting_.empty() && !current_->channel.has_room()) current_->channel.reset_done();
  look_after(*current_);
}

void HandshakerService::connect() {
  if (closed_ || reconnect_.armed()) return;
  const uint64_t now = worker_.now_ms();
  if (connected_ms_ && now < *connected_ms_ + kReconnectMs) {
    return worker_.timers().arm(reconnect_, *connected_ms_ + kReconnectMs);
  }
  connected_ms_ = now;
  const int fd = ::socket(address_.family(), SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) {
    return fail_waiting("the handshaker service " + address_text_ + " cannot be reached: " + reason_of(errno));
  }
  if (address_.kind() != config::Address::Kind::kUnix) {
    const int on = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &kSilentMs, sizeof kSilentMs);
  }
  connections_.push_back(std::make_unique<Connection>(*this));
  current_ = connections_.back().get();
  worker_.timers().arm(current_->deadline, now + kAnswerMs);
  current_->socket.connect(fd, address_.data(), address_.length());
}

void HandshakerService::flush(Connection& connection) {
  if (!connection.connected || !connection.socket.open()) return;
  while (connection.socket.queued() < kMaxQueuedBytes) {
    Buffer out;
    if (!connection.channel.produce(worker_.pool(), out, kMaxQueuedBytes - connection.socket.queued())) {
      return drop(connection, connection.channel.error());
    }
    if (out.empty()) return;
    connection.socket.send(std::move(out));
  }
}

// After something was received, or sent.
void HandshakerService::look_after(Connection& connection) {
  if (connection.channel.leaving()) {
    if (current_ == &connection) current_ = nullptr;
    if (connection.channel.calls() == 0) drop(connection, connection.text("ended the connection"));
  }
  flush(connection);
  pump();
}

// Its calls fail; and those that wait too if it has never been of use, so that they need not wait for another.
void HandshakerService::drop(Connection& connection, const std::string& error) {
  if (!connection.socket.open()) return;
  connection.deadline.cancel();
  connection.socket.close();
  if (current_ == &connection) current_ = nullptr;
  connection.channel.fail(error);
  if (!connection.channel.ready()) fail_waiting(error);
  pump();
}

void HandshakerService::forget(Connection& connection) {
  std::erase_if(connections_, [&](const auto& c) { return c.get() == &connection; });
}

void HandshakerService::fail_waiting(const std::string& error) {
  while (!waiting_.empty()) {
    HandshakerCall& call = *waiting_.front();
    withdraw(call);
    call.fail(error);
  }
}

void HandshakerCall::send(std::string request) {
  if (!error_.empty()) return;
  SLUICE_CHECK(!place_);
  go_on();
  request_ = std::move(request);
  if (!connection_) return service_.enqueue(*this);
  connection_->channel.send(*this, request_);
  service_.flush(*connection_);
}

void HandshakerCall::on_response(std::string&& response) {
  answered_ = true;
  answered_ms_ = service_.worker_.now_ms();
  rest_ = service_.resting_.insert(service_.resting_.end(), this);
  request_.clear();
  response_ = std::move(response);
  service_.worker_.slow_work().push(wake_);
}

// What the service has not looked at is asked again, once, before those that wait.
void HandshakerCall::on_end(std::string error, bool untouched) {
  go_on();
  connection_ = nullptr;
  --service_.open_calls_;
  if (untouched && !answered_ && !service_.closed_ && !std::exchange(repeated_, true)) {
    place_ = service_.waiting_.insert(service_.waiting_.begin(), this);
  } else {
    fail(std::move(error));
  }
}

void HandshakerCall::fail(std::string error) {
  error_ = std::move(error);
  service_.worker_.slow_work().push(wake_);
}

// No more among those that rest.
void HandshakerCall::go_on() {
  if (rest_) service_.resting_.erase(*std::exchange(rest_, std::nullopt));
}

void HandshakerCall::close(bool done) {
  go_on();
  if (place_) service_.withdraw(*this);
  HandshakerService::Connection* const connection = std::exchange(connection_, nullptr);
  if (!connection) return;
  connection->channel.close(*this, done);
  --service_.open_calls_;
  service_.look_after(*connection);
}

}  // namespace sluice
