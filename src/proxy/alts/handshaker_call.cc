#include "proxy/alts/handshaker_call.h"

#include <openssl/mem.h>

#include "pool/check.h"
#include "proxy/alts/handshaker_connection.h"
#include "proxy/alts/handshaker_service.h"

namespace sluice {

void HandshakerCall::send(std::string request) {
  if (!error_.empty()) return;
  SLUICE_CHECK(!place_);
  go_on();
  request_ = std::move(request);
  if (!connection_) return service_.enqueue(*this);
  connection_->channel().send(*this, request_);
  connection_->flush();
}

HandshakerCall::~HandshakerCall() {
  // A response that nobody has taken may hold keys.
  if (response_) OPENSSL_cleanse(response_->data(), response_->size());
  close(/*done=*/false);
}

void HandshakerCall::open(HandshakerConnection& connection) {
  connection_ = &connection;
  connection.channel().open(*this, request_);
}

void HandshakerCall::on_response(std::string&& response) {
  answered_ = true;
  answered_ms_ = service_.worker().now_ms();
  service_.note_rest(*this);
  request_.clear();
  response_ = std::move(response);
  service_.worker().yielding_tasks().push(wake_);
}

// What the service has not looked at is asked again, once, before those that wait.
void HandshakerCall::on_end(std::string error, bool untouched) {
  go_on();
  connection_ = nullptr;
  service_.note_end(*this);
  if (untouched && !answered_ && !std::exchange(repeated_, true) && service_.enqueue_again(*this)) return;
  fail(std::move(error));
}

void HandshakerCall::fail(std::string error) {
  error_ = std::move(error);
  service_.worker().yielding_tasks().push(wake_);
}

// No more among those that rest.
void HandshakerCall::go_on() {
  if (rest_) service_.note_going_on(*this);
}

void HandshakerCall::close(bool done) {
  if (HandshakerConnection* const connection = leave(done)) service_.look_after(*connection);
}

HandshakerConnection* HandshakerCall::leave(bool done) {
  go_on();
  if (place_) service_.withdraw(*this);
  HandshakerConnection* const connection = std::exchange(connection_, nullptr);
  if (!connection) return nullptr;
  connection->channel().close(*this, done);
  service_.note_end(*this);
  return connection;
}

}  // namespace sluice
