#include "proxy/alts/handshaker_service.h"

#include <algorithm>
#include <system_error>
#include <utility>

#include "sluice/internal/check.h"

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

HandshakerService::~HandshakerService() { SLUICE_CHECK(idle() && !any_waiting()); }

std::string HandshakerService::text(std::string_view what) const {
  return "the handshaker service " + address_text_ + ' ' + std::string(what);
}

void HandshakerService::close() {
  if (std::exchange(closed_, true)) return;
  reconnect_.cancel();
  make_room_.cancel();
  rested_.cancel();
  lookup_.cancel();
  const std::string error = text("is not called: the proxy is shutting down");
  fail_waiting(error);
  // Every connection in the list has a descriptor, so on_gone() follows for each.
  for (const auto& connection : connections_) connection->close(error);
}

// ---- Calls ----

bool HandshakerService::any_waiting() const {
  return std::any_of(sides_.begin(), sides_.end(), [](const Side& each) { return !each.waiting.empty(); });
}

void HandshakerService::enqueue(HandshakerCall& call) {
  if (closed_) return call.fail(text("is not called: the proxy is shutting down"));
  std::list<HandshakerCall*>& waiting = side(call.role_).waiting;
  call.waiting_at_ = waiting.insert(waiting.end(), &call);
  pump();
}

// Called from within the channel, so it must not use the connection. The caller of the channel pumps afterwards.
bool HandshakerService::enqueue_retry(HandshakerCall& call) {
  if (closed_) return false;
  std::list<HandshakerCall*>& waiting = side(call.role_).waiting;
  call.waiting_at_ = waiting.insert(waiting.begin(), &call);
  return true;
}

void HandshakerService::withdraw(HandshakerCall& call) {
  side(call.role_).waiting.erase(*std::exchange(call.waiting_at_, std::nullopt));
}

void HandshakerService::note_resting(HandshakerCall& call) {
  std::list<HandshakerCall*>& resting = side(call.role_).resting;
  call.resting_at_ = resting.insert(resting.end(), &call);
}

void HandshakerService::note_resumed(HandshakerCall& call) {
  side(call.role_).resting.erase(*std::exchange(call.resting_at_, std::nullopt));
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

// ---- Admission ----

// Opens waiting calls as far as possible, after any change.
void HandshakerService::pump() {
  end_resting();
  if (!any_waiting()) {
    if (current_) current_->flush();
    return;
  }
  if (!current_) return connect();
  open_waiting();
  make_room_later();
  current_->flush();
}

// Ends calls that have rested longer than kRestMs while others wait for their places.
void HandshakerService::end_resting() {
  while (HandshakerCall* const call = longest_resting()) {
    const uint64_t end = call->responded_ms_ + kRestMs;
    if (worker_.now_ms() < end) return worker_.timers().arm(rested_, end);
    HandshakerConnection* const connection = call->leave(/*done=*/false);
    call->fail("the peer sent nothing for a second while other handshakes wait for the handshaker service " +
               address_text_);
    if (connection != current_) return update(*connection);  // Calls pump() again.
  }
}

// Of the resting calls whose places waiting calls could take, the one that has rested longest; null if there is none.
HandshakerCall* HandshakerService::longest_resting() {
  const bool any_place = current_ && !current_->channel().has_room() && any_waiting();
  HandshakerCall* first = nullptr;
  for (const Side& each : sides_) {
    const bool own_place = !each.has_place() && !each.waiting.empty();
    if ((!any_place && !own_place) || each.resting.empty()) continue;
    HandshakerCall* const call = each.resting.front();
    if (!first || call->responded_ms_ < first->responded_ms_) first = call;
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

// The waiting call to open next; null if there is none, or no room for it.
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
  if (!any_waiting() || !current_->channel().has_done() || make_room_.armed()) return;
  worker_.timers().arm(make_room_, worker_.now_ms() + kResetDoneMs);
}

void HandshakerService::make_room() {
  if (!current_) return;
  if (any_waiting() && !current_->channel().has_room()) current_->channel().reset_done();
  update(*current_);
}

// ---- The connection ----

// Updates the service after bytes were received or sent, or after a call has ended.
void HandshakerService::update(HandshakerConnection& connection) {
  if (connection.channel().leaving()) {
    if (current_ == &connection) current_ = nullptr;
    if (connection.channel().calls() == 0) return connection.close(text("ended the connection"));
  }
  connection.flush();
  pump();
}

void HandshakerService::connect() {
  if (closed_ || reconnect_.armed() || lookup_.in_progress()) return;
  const uint64_t now = worker_.now_ms();
  if (connected_ms_ && now < *connected_ms_ + kReconnectMs) {
    return worker_.timers().arm(reconnect_, *connected_ms_ + kReconnectMs);
  }
  connected_ms_ = now;
  if (address_.is_name()) return lookup_.begin(address_, resolve_);
  addresses_ = {address_.address()};
  connect_to_next();
}

void HandshakerService::on_looked_up(HandshakerLookup::Result&& result) {
  addresses_ = std::move(result.addresses);
  if (addresses_.empty()) return fail_waiting(text("cannot be found: " + result.error));
  if (any_waiting()) connect_to_next();
}

// Precondition: addresses_ is not empty.
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

// If a connection is lost before it was ready, the next address is tried; without one, the waiting calls fail.
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
