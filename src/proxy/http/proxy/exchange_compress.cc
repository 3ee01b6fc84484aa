// Compression of responses: body that arrives waits for its turn, and compressed output is sent like any body.

#include <algorithm>
#include <utility>

#include "net/worker.h"
#include "proxy/compression/compression_policy.h"
#include "proxy/http/proxy/exchange.h"
#include "proxy/http/proxy/http_listener.h"
#include "proxy/http/proxy/http_session.h"
#include "proxy/http/proxy/http_worker.h"
#include "proxy/http/proxy/response_compression.h"

namespace sluice {

void Exchange::compress_response(ContentCoding coding) {
  compression_ = make_in_chunk<ResponseCompression>(
      pool(), worker_.compressors(), coding, [](void* self) { static_cast<Exchange*>(self)->compress_piece(); }, this);
}

void Exchange::compress(Buffer&& body, bool end) {
  ResponseCompression& state = *compression_;
  listener_.counters.compression_in_bytes.add(body.size());
  state.waiting.append(std::move(body));
  state.ended = end;
  worker_.worker().yielding_tasks().push(state.work);
}

void Exchange::continue_compressing() {
  if (compression_) worker_.worker().yielding_tasks().push(compression_->work);
}

// Compresses one piece. If a turn has brought nothing more, the compressor is flushed, because the upstream may stay
// silent for any length of time.
void Exchange::compress_piece() {
  ResponseCompression& state = *compression_;
  if (client_->queued() >= high_mark()) return;  // on_drained() continues.
  Buffer piece = state.waiting.split_front(std::min(state.waiting.size(), ResponseCompression::kPieceBytes));
  const bool last = state.ended && state.waiting.empty();
  const bool flush = !last && piece.empty();
  if (flush && !state.unflushed) return;
  state.unflushed = !flush;
  Buffer out;
  const auto then = last ? Compressor::Then::kEnd : flush ? Compressor::Then::kFlush : Compressor::Then::kMore;
  state.compress(pool(), std::move(piece), then, listener_.compression->level(), out);
  last ? end_compression(std::move(out)) : pass_compressed(std::move(out), false);
  if (!last && !flush) worker_.worker().yielding_tasks().push(state.work);
  resume_response();
  session_->wake();
  settle();
}

void Exchange::pass_compressed(Buffer&& out, bool end) {
  listener_.counters.compression_out_bytes.add(out.size());
  response_bytes_ += out.size();
  if (client_->queued() == 0) last_response_ms_ = now_ms();
  if (end || !out.empty()) client_->send_body(std::move(out), end);
}

void Exchange::end_compression(Buffer&& out) {
  const Fields trailers = std::move(compression_->trailers);
  compression_.reset();
  pass_compressed(std::move(out), trailers.empty());
  if (!trailers.empty()) client_->send_trailers(trailers);
}

}  // namespace sluice
