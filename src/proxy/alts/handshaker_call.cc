#include "proxy/alts/handshaker_call.h"

#include <openssl/mem.h>

#include "net/worker.h"
#include "proxy/alts/handshaker_connection.h"
#include "sluice/internal/check.h"

namespace sluice {

void HandshakerCall::send(std::string request) {
  if (!error_.empty()) return;
  SLUICE_CHECK(!waiting_at_);
  stop_resting();
  request_ = std::move(request);
  if (!connection_) return service_.enqueue(*this);
  connection_->channel().send(*this, request_);
  connection_->flush();
}

HandshakerCall::~HandshakerCall() {
  // A response that was not taken may hold keys.
  if (response_) OPENSSL_cleanse(response_->data(), response_->size());
  close(/*done=*/false);
}

void HandshakerCall::open(HandshakerConnection& connection) {
  connection_ = &connection;
  connection.channel().open(*this, request_);
}

void HandshakerCall::on_response(std::string&& response) {
  responded_ = true;
  responded_ms_ = service_.worker().now_ms();
  service_.note_resting(*this);
  request_.clear();
  response_ = std::move(response);
  service_.worker().yielding_tasks().push(wake_);
}

// A request that the service has not processed is retried once, ahead of the waiting calls.
void HandshakerCall::on_end(std::string error, bool untouched) {
  stop_resting();
  connection_ = nullptr;
  service_.note_end(*this);
  if (untouched && !responded_ && !std::exchange(retried_, true) && service_.enqueue_retry(*this)) return;
  fail(std::move(error));
}

void HandshakerCall::fail(std::string error) {
  error_ = std::move(error);
  service_.worker().yielding_tasks().push(wake_);
}

// Removes the call from the resting calls.
void HandshakerCall::stop_resting() {
  if (resting_at_) service_.note_resumed(*this);
}

void HandshakerCall::close(bool done) {
  if (HandshakerConnection* const connection = leave(done)) service_.update(*connection);
}

HandshakerConnection* HandshakerCall::leave(bool done) {
  stop_resting();
  if (waiting_at_) service_.withdraw(*this);
  HandshakerConnection* const connection = std::exchange(connection_, nullptr);
  if (!connection) return nullptr;
  connection->channel().close(*this, done);
  service_.note_end(*this);
  return connection;
}

}  // namespace sluice
