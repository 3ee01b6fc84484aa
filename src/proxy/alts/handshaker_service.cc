#include "proxy/alts/handshaker_service.h"

#include <algorithm>
#include <system_error>
#include <utility>

#include "pool/check.h"

namespace sluice {

HandshakerService::HandshakerService(Worker& worker, const config::EndpointAddress& address,
                                     HelperThreads* lookup_threads, const config::Resolve& resolve)
    : worker_(worker),
      address_(address),
      resolve_(resolve),
      address_text_(address.text()),
      lookup_(*this, lookup_threads),
      reconnect_([](void* self) { static_cast<HandshakerService*>(self)->pump(); }, this),
      make_room_([](void* self) { static_cast<HandshakerService*>(self)->make_room(); }, this),
      rested_([](void* self) { static_cast<HandshakerService*>(self)->pump(); }, this) {}

HandshakerService::~HandshakerService() { SLUICE_CHECK(idle() && !some_wait()); }

std::string HandshakerService::text(std::string_view what) const {
  return "the handshaker service " + address_text_ + ' ' + std::string(what);
}

void HandshakerService::close() {
  if (std::exchange(closed_, true)) return;
  reconnect_.cancel();
  make_room_.cancel();
  rested_.cancel();
  lookup_.cancel();
  const std::string error = text("is no longer asked: the proxy ends");
  fail_waiting(error);
  // A connection that has no descriptor yet does not exist, so each is told of as gone.
  for (const auto& connection : connections_) connection->close(error);
}

// ---- Calls ----

bool HandshakerService::some_wait() const {
  return std::any_of(sides_.begin(), sides_.end(), [](const Side& each) { return !each.waiting.empty(); });
}

void HandshakerService::enqueue(HandshakerCall& call) {
  if (closed_) return call.fail(text("is no longer asked: the proxy ends"));
  std::list<HandshakerCall*>& waiting = side(call.role_).waiting;
  call.place_ = waiting.insert(waiting.end(), &call);
  pump();
}

// Out of the channel, which is looked after behind it.
bool HandshakerService::enqueue_again(HandshakerCall& call) {
  if (closed_) return false;
  std::list<HandshakerCall*>& waiting = side(call.role_).waiting;
  call.place_ = waiting.insert(waiting.begin(), &call);
  return true;
}

void HandshakerService::withdraw(HandshakerCall& call) {
  side(call.role_).waiting.erase(*std::exchange(call.place_, std::nullopt));
}

void HandshakerService::note_rest(HandshakerCall& call) {
  std::list<HandshakerCall*>& resting = side(call.role_).resting;
  call.rest_ = resting.insert(resting.end(), &call);
}

void HandshakerService::note_going_on(HandshakerCall& call) {
  side(call.role_).resting.erase(*std::exchange(call.rest_, std::nullopt));
}

void HandshakerService::fail_waiting(const std::string& error) {
  for (Side& each : sides_) {
    while (!each.waiting.empty()) {
      HandshakerCall& call = *each.waiting.front();
      withdraw(call);
      call.fail(error);
    }
  }
}

// ---- Places ----

// Whatever has changed: those who wait get what there is.
void HandshakerService::pump() {
  end_resting();
  if (!some_wait()) {
    if (current_) current_->flush();
    return;
  }
  if (!current_) return connect();
  open_waiting();
  make_room_later();
  current_->flush();
}

// Ends calls that have rested for too long, as far as others wait for their places.
void HandshakerService::end_resting() {
  while (HandshakerCall* const call = in_the_way()) {
    const uint64_t end = call->answered_ms_ + kRestMs;
    if (worker_.now_ms() < end) return worker_.timers().arm(rested_, end);
    HandshakerConnection* const connection = call->leave(/*done=*/false);
    call->fail("the peer has said nothing for a second, and others wait for the handshaker service " + address_text_);
    if (connection != current_) return look_after(*connection);  // Which pumps.
  }
}

// The call that has rested longest of those in whose places others could go on; null if there is none.
HandshakerCall* HandshakerService::in_the_way() {
  const bool any_place = current_ && !current_->channel().has_room() && some_wait();
  HandshakerCall* first = nullptr;
  for (const Side& each : sides_) {
    const bool own_place = !each.has_place() && !each.waiting.empty();
    if ((!any_place && !own_place) || each.resting.empty()) continue;
    HandshakerCall* const call = each.resting.front();
    if (!first || call->answered_ms_ < first->answered_ms_) first = call;
  }
  return first;
}

void HandshakerService::open_waiting() {
  if (!current_->channel().ready()) return;
  while (HandshakerCall* const call = next_to_open()) {
    withdraw(*call);
    ++side(call->role_).open;
    call->open(*current_);
  }
}

// Null if nobody waits for whom there is room.
HandshakerCall* HandshakerService::next_to_open() {
  if (current_->channel().leaving() || !current_->channel().has_room()) return nullptr;
  const Role other = turn_ == Role::kClient ? Role::kServer : Role::kClient;
  for (const Role role : {turn_, other}) {
    const Side& its = side(role);
    if (its.waiting.empty() || !its.has_place()) continue;
    turn_ = role == Role::kClient ? Role::kServer : Role::kClient;
    return its.waiting.front();
  }
  return nullptr;
}

void HandshakerService::make_room_later() {
  if (!some_wait() || !current_->channel().has_done() || make_room_.armed()) return;
  worker_.timers().arm(make_room_, worker_.now_ms() + kGiveWayMs);
}

void HandshakerService::make_room() {
  if (!current_) return;
  if (some_wait() && !current_->channel().has_room()) current_->channel().reset_done();
  look_after(*current_);
}

// ---- The connection ----

// After something was received, or sent, or a call has ended.
void HandshakerService::look_after(HandshakerConnection& connection) {
  if (connection.channel().leaving()) {
    if (current_ == &connection) current_ = nullptr;
    if (connection.channel().calls() == 0) return connection.close(text("ended the connection"));
  }
  connection.flush();
  pump();
}

void HandshakerService::connect() {
  if (closed_ || reconnect_.armed() || lookup_.under_way()) return;
  const uint64_t now = worker_.now_ms();
  if (connected_ms_ && now < *connected_ms_ + kReconnectMs) {
    return worker_.timers().arm(reconnect_, *connected_ms_ + kReconnectMs);
  }
  connected_ms_ = now;
  if (address_.is_name()) return lookup_.begin(address_, resolve_);
  addresses_ = {address_.address()};
  connect_to_next();
}

void HandshakerService::on_looked_up(HandshakerLookup::Answer&& answer) {
  addresses_ = std::move(answer.addresses);
  if (addresses_.empty()) return fail_waiting(text("cannot be found: " + answer.error));
  if (some_wait()) connect_to_next();
}

// Precondition: there is one.
void HandshakerService::connect_to_next() {
  const config::Address address = addresses_.front();
  addresses_.erase(addresses_.begin());
  HandshakerConnection::Owner& owner = *this;
  auto connection = std::make_unique<HandshakerConnection>(worker_, address_text_, owner);
  if (const int error = connection->connect(address)) {
    return fail_waiting(text("cannot be reached: " + std::generic_category().message(error)));
  }
  current_ = connection.get();
  connections_.push_back(std::move(connection));
}

// If it has never been of use, those who wait need not wait for another, but where the name has one more address.
void HandshakerService::on_lost(HandshakerConnection& connection, const std::string& error) {
  if (current_ == &connection) current_ = nullptr;
  if (!connection.channel().ready()) {
    if (!closed_ && !connection.connected() && !addresses_.empty()) return connect_to_next();
    fail_waiting(error);
  }
  pump();
}

void HandshakerService::on_gone(HandshakerConnection& connection) {
  std::erase_if(connections_, [&](const auto& c) { return c.get() == &connection; });
}

}  // namespace sluice
