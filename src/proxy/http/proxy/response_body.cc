#include "proxy/http/proxy/response_body.h"

#include <algorithm>
#include <utility>

#include "net/worker.h"
#include "proxy/compression/compression_policy.h"
#include "proxy/http/proxy/body_buffer.h"
#include "proxy/http/proxy/http_listener.h"
#include "proxy/http/proxy/http_session.h"
#include "proxy/http/proxy/http_worker.h"
#include "proxy/http/proxy/request_context.h"
#include "proxy/http/proxy/response_compression.h"
#include "proxy/rate_limit/body_pacer.h"

namespace sluice {

ResponseBody::ResponseBody(RequestContext& context) : context_(context) {}
ResponseBody::~ResponseBody() = default;

// A tunnel may be cut after the upstream has ended its direction.
void ResponseBody::cut_off() {
  SLUICE_CHECK(state_ == State::kBegun || state_ == State::kEnded);
  state_ = State::kCut;
  resume();
}

void ResponseBody::send(Buffer&& body, bool end) {
  if (end) this->end();
  if (buffer_ || (uses_buffer() && queued() + body.size() > BodyBuffer::share(context_.loop()))) {
    add_to_buffer(std::move(body));
  } else {
    pass(std::move(body), end);
  }
}

void ResponseBody::send_whole(Buffer&& body) {
  if (paced_) return deliver(std::move(body), true);
  bytes_ = body.size();
  context_.client()->send_body(std::move(body), true);
}

void ResponseBody::send_trailers(Fields&& trailers) {
  end();
  if (!buffer_) return pass_trailers(std::move(trailers));
  buffer_->put_trailers(std::move(trailers));
  empty_buffer();
}

void ResponseBody::resume() {
  if (paced_) pass_paced();
  continue_compressing();
  if (buffer_) empty_buffer();
}

size_t ResponseBody::queued() const {
  return context_.client()->queued() + (compression_ ? compression_->waiting.size() : 0) +
         (paced_ ? pacer().held() : 0);
}

size_t ResponseBody::pinned() const {
  return (context_.client() ? queued() : 0) + (buffer_ ? buffer_->memory_bytes() : 0);
}

bool ResponseBody::holds_data() const {
  return (buffer_ && !buffer_->empty()) || holds_for_turn() ||
         (compression_ && (!compression_->waiting.empty() || compression_->unflushed));
}

// Without a buffer, reading goes on once half of the mark is free, and if the body is paced, once nothing of it waits
// for its turn.
bool ResponseBody::must_pause() {
  if (buffer_) {
    paused_ = buffer_->full();
  } else if (holds_for_turn() && !uses_buffer()) {
    paused_ = true;
  } else if (paused_) {
    paused_ = queued() > context_.high_mark() / 2;
  } else {
    paused_ = !uses_buffer() && queued() >= context_.high_mark();
  }
  return paused_;
}

void ResponseBody::stop() {
  if (compression_) compression_->work.cancel();
  if (paced_) pacer().stop();
}

// ---- The buffer ----

// Whether the response is buffered, so that a slow client does not hold up the upstream.
bool ResponseBody::uses_buffer() const {
  const auto& rule = context_.route()->buffer;
  return rule && rule->responses.bytes > 0 && !context_.tunnel();
}

void ResponseBody::add_to_buffer(Buffer&& body) {
  if (!buffer_) {
    const auto moved = [](void* self) { static_cast<ResponseBody*>(self)->buffer_moved(); };
    buffer_ = context_.make_body_buffer(context_.route()->buffer->responses.bytes, moved, this);
  }
  buffer_->add(std::move(body));
  empty_buffer();
}

void ResponseBody::buffer_moved() {
  if (!context_.client()) return;
  empty_buffer();
  context_.on_response_moved();
}

// Passes on as much as the client takes now.
void ResponseBody::empty_buffer() {
  Worker& worker = context_.loop();
  const size_t share = BodyBuffer::share(worker);
  while (buffer_ && queued() < share) {
    const bool keeps_up = queued() == 0 && !context_.session()->has_queued();
    Buffer piece = keeps_up ? buffer_->take(share) : buffer_->take_stored(share);
    // The client may become slow with this very piece, whose chunk has unused room.
    if (keeps_up && BodyBuffer::is_pressed(worker)) (void)piece.compact(worker.pool());
    const bool last = ended() && buffer_->empty();
    if (piece.empty() && !last) break;
    Fields trailers;
    if (last) trailers = std::exchange(buffer_, nullptr)->take_trailers();
    pass(std::move(piece), last && trailers.empty());
    if (!trailers.empty()) pass_trailers(std::move(trailers));
  }
  // With nothing queued, no event would report that there is room.
  if (buffer_) buffer_->store(/*all=*/queued() == 0);
}

// ---- To the client ----

void ResponseBody::pass(Buffer&& body, bool end) {
  compression_ ? compress(std::move(body), end) : deliver(std::move(body), end);
}

void ResponseBody::pass_trailers(Fields&& trailers) {
  if (compression_) {
    compression_->trailers = std::move(trailers);
    return compress(Buffer(), true);
  }
  deliver_trailers(std::move(trailers));
}

void ResponseBody::deliver(Buffer&& body, bool end) {
  if (!paced_) return send_to_client(std::move(body), end);
  pacer().add(std::move(body), end);
  pass_paced();
}

void ResponseBody::deliver_trailers(Fields&& trailers) {
  if (paced_) {
    pacer().add_trailers(std::move(trailers));
    return pass_paced();
  }
  context_.client()->send_trailers(trailers);
  context_.session()->wake();
}

void ResponseBody::send_to_client(Buffer&& body, bool end) {
  bytes_ += body.size();
  context_.note_response_queued();
  context_.client()->send_body(std::move(body), end);
  context_.session()->wake();
}

// ---- Pacing: what goes to the client waits for its turn ----

ChunkPointer<BodyPacer> ResponseBody::pace(const Bandwidth& limits) {
  paced_ = true;
  return make_in_chunk<BodyPacer>(
      context_.pool(), context_.loop(), limits, [](void* self) { static_cast<ResponseBody*>(self)->take_turn(); },
      this);
}

BodyPacer& ResponseBody::pacer() const { return *context_.pacers().response; }
bool ResponseBody::awaits_turn() const { return paced_ && pacer().waits(); }
bool ResponseBody::has_waited() const { return paced_ && pacer().has_waited(); }
bool ResponseBody::holds_for_turn() const { return paced_ && !pacer().empty(); }

bool ResponseBody::client_is_full() const {
  return context_.client()->queued() >= context_.high_mark() || holds_for_turn();
}

void ResponseBody::take_turn() {
  if (!context_.client()) return;
  context_.note_turn();
  resume();
  context_.on_response_moved();
}

void ResponseBody::pass_paced() {
  BodyPacer& from = pacer();
  while (context_.client()->queued() < context_.high_mark() && from.ready()) {
    BodyPacer::Piece piece = from.take();
    const bool trailers = piece.end && from.has_trailers();
    if (!trailers || !piece.bytes.empty()) send_to_client(std::move(piece.bytes), piece.end && !trailers);
    if (!trailers) continue;
    context_.client()->send_trailers(from.take_trailers());
    context_.session()->wake();
  }
}

// ---- Compression: body that arrives waits for its turn, and compressed output is sent like any body ----

void ResponseBody::compress(ContentCoding coding) {
  compression_ = make_in_chunk<ResponseCompression>(
      context_.pool(), context_.http_worker().compressors(), coding,
      [](void* self) { static_cast<ResponseBody*>(self)->compress_piece(); }, this);
}

void ResponseBody::compress(Buffer&& body, bool end) {
  ResponseCompression& state = *compression_;
  context_.listener().counters.compression_in_bytes.add(body.size());
  state.waiting.append(std::move(body));
  state.ended = end;
  context_.loop().yielding_tasks().push(state.work);
}

void ResponseBody::continue_compressing() {
  if (compression_) context_.loop().yielding_tasks().push(compression_->work);
}

// Compresses one piece. If a turn has brought nothing more, the compressor is flushed, because the upstream may stay
// silent for any length of time.
void ResponseBody::compress_piece() {
  ResponseCompression& state = *compression_;
  if (client_is_full()) return;  // resume() continues.
  Buffer piece = state.waiting.split_front(std::min(state.waiting.size(), ResponseCompression::kPieceBytes));
  const bool last = state.ended && state.waiting.empty();
  const bool flush = !last && piece.empty();
  if (flush && !state.unflushed) return;
  state.unflushed = !flush;
  Buffer out;
  const auto then = last ? Compressor::Then::kEnd : flush ? Compressor::Then::kFlush : Compressor::Then::kMore;
  state.compress(context_.pool(), std::move(piece), then, context_.listener().compression->level(), out);
  last ? end_compression(std::move(out)) : pass_compressed(std::move(out), false);
  if (!last && !flush) context_.loop().yielding_tasks().push(state.work);
  if (buffer_) empty_buffer();
  context_.session()->wake();
  context_.on_response_moved();
}

void ResponseBody::pass_compressed(Buffer&& out, bool end) {
  context_.listener().counters.compression_out_bytes.add(out.size());
  if (end || !out.empty()) deliver(std::move(out), end);
}

void ResponseBody::end_compression(Buffer&& out) {
  Fields trailers = std::move(compression_->trailers);
  compression_.reset();
  pass_compressed(std::move(out), trailers.empty());
  if (!trailers.empty()) deliver_trailers(std::move(trailers));
}

}  // namespace sluice
