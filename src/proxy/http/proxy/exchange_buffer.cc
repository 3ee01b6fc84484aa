// Buffering: a request waits until all of it is here, a response until its client takes it.

#include <algorithm>
#include <array>
#include <charconv>
#include <utility>

#include "net/worker.h"
#include "proxy/http/proxy/body_buffer.h"
#include "proxy/http/proxy/exchange.h"
#include "proxy/http/proxy/http_listener.h"
#include "proxy/http/proxy/http_session.h"
#include "proxy/http/proxy/http_worker.h"
#include "proxy/http/proxy/upstream_connection.h"

namespace sluice {

ChunkPointer<BodyBuffer> Exchange::make_body_buffer(uint64_t max_bytes, void (*moved)(void* self)) {
  Worker& worker = worker_.worker();
  return make_in_chunk<BodyBuffer>(worker.pool(), worker, worker_.body_file(), max_bytes, listener_.counters.body_file,
                                   moved, static_cast<void*>(this));
}

// How many bytes a stream, which keeps them in memory, may queue.
size_t Exchange::waiting_share() const { return BodyBuffer::share(worker_.worker()); }

// ---- The request ----

PhaseResult Exchange::collect(uint64_t most_bytes) {
  waiting_request_ = make_body_buffer(most_bytes, [](void* self) {
    auto& exchange = *static_cast<Exchange*>(self);
    if (!exchange.over_) exchange.continue_request();
  });
  collecting_ = true;
  waiting_request_->add(std::move(held_));
  if (request_.fields.remove("expect") == 0) return PhaseResult::wait();
  // No upstream can send the 100 (Continue) yet.
  Head interim;
  interim.status = 100;
  client_->send_head(interim, false);
  session_->wake();
  return PhaseResult::wait();
}

void Exchange::continue_request() {
  if (response_begun_ && !upstream_) {  // The response was sent already.
    collecting_ = false;
    waiting_request_.reset();
    return settle();
  }
  if (upstream_) pass_waiting_request();
  waiting_request_->store();
  if (collecting_ && (request_ended_ || waiting_request_->stays_full())) {
    collecting_ = phase_waits_ = false;
    return advance();
  }
  if (!request_ended_ && waiting_request_->full() != request_paused_) {
    request_paused_ ? resume_request() : pause_request();
  }
  settle();
}

void Exchange::pass_waiting_request() {
  for (const size_t most = waiting_share(); !request_passed_ && upstream_->queued() < most;) {
    Buffer piece = waiting_request_->take(most);
    request_passed_ = request_ended_ && waiting_request_->empty();
    if (piece.empty() && !request_passed_) return;
    waiting_since_ms_ = last_passed_ms_ = now_ms();
    pass_body(std::move(piece), request_passed_ && held_trailers_.empty());
    if (request_passed_ && !held_trailers_.empty()) pass_trailers(std::exchange(held_trailers_, {}));
    connection_->wake();
  }
}

// Adds the Content-Length, which is known now. Some upstreams accept no body without it.
bool Exchange::add_content_length() {
  constexpr std::string_view kLength = "content-length";
  if (!waiting_request_ || !request_ended_ || !held_trailers_.empty()) return true;
  if (request_.fields.find(kLength) != Fields::npos) return true;
  std::array<char, 24> digits;
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), request_bytes_).ptr;
  return request_.fields.add(pool(), kLength, {digits.data(), end});
}

// ---- The response ----

// Whether the response is buffered, so that a slow client does not hold up the upstream.
bool Exchange::keeps_response() const { return route_->buffer && route_->buffer->responses.bytes > 0 && !tunnel_; }

bool Exchange::must_wait(const Buffer& body) const {
  return waiting_response_ || (keeps_response() && response_queued() + body.size() > waiting_share());
}

void Exchange::keep_for_client(Buffer&& body) {
  if (!waiting_response_) {
    waiting_response_ = make_body_buffer(route_->buffer->responses.bytes, [](void* self) {
      auto& exchange = *static_cast<Exchange*>(self);
      if (exchange.over_) return;
      exchange.continue_response();
      exchange.settle();
    });
  }
  waiting_response_->add(std::move(body));
  continue_response();
}

void Exchange::continue_response() {
  Worker& worker = worker_.worker();
  const size_t share = waiting_share();
  while (waiting_response_ && response_queued() < share) {
    const bool keeps_up = response_queued() == 0 && !session_->has_queued();
    Buffer piece = keeps_up ? waiting_response_->take(share) : waiting_response_->take_stored(share);
    // The client may become slow with this very piece, whose chunk has unused room.
    if (keeps_up && BodyBuffer::is_pressed(worker)) (void)piece.compact(worker.pool());
    const bool last = response_ended_ && waiting_response_->empty();
    if (piece.empty() && !last) break;
    Fields trailers;
    if (last) trailers = std::exchange(waiting_response_, nullptr)->take_trailers();
    pass_response(std::move(piece), last && trailers.empty());
    if (!trailers.empty()) pass_response_trailers(std::move(trailers));
  }
  if (!waiting_response_) return;
  // With nothing queued, no event would report that there is room.
  waiting_response_->store(/*all=*/response_queued() == 0);
  if (upstream_ && !response_ended_ && waiting_response_->full() != response_paused_) {
    response_paused_ = !response_paused_;
    upstream_->set_reading(!response_paused_);
    if (!response_paused_) connection_->wake();
  }
}

}  // namespace sluice
