#include "proxy/http/proxy/request_body.h"

#include <array>
#include <charconv>
#include <string_view>
#include <utility>

#include "net/worker.h"
#include "proxy/http/proxy/body_buffer.h"
#include "proxy/http/proxy/http_listener.h"
#include "proxy/http/proxy/http_session.h"
#include "proxy/http/proxy/http_worker.h"
#include "proxy/http/proxy/mirrored_request.h"
#include "proxy/http/proxy/request_context.h"
#include "proxy/rate_limit/body_pacer.h"

namespace sluice {

RequestBody::RequestBody(RequestContext& context) : context_(context) {}
RequestBody::~RequestBody() = default;

// ---- Pacing: what the client sends waits for its turn before anything else is done with it ----

ChunkPointer<BodyPacer> RequestBody::pace(const Bandwidth& limits) {
  paced_ = true;
  ChunkPointer<BodyPacer> made = make_in_chunk<BodyPacer>(
      context_.pool(), context_.loop(), limits, [](void* self) { static_cast<RequestBody*>(self)->take_turn(); }, this);
  if (!held_.empty()) made->charge(held_.size());
  return made;
}

BodyPacer& RequestBody::pacer() const { return *context_.pacers().request; }
bool RequestBody::awaits_turn() const { return paced_ && pacer().waits(); }
bool RequestBody::has_waited() const { return paced_ && pacer().has_waited(); }
bool RequestBody::reads() const { return !paused_ && (!paced_ || pacer().empty()); }

void RequestBody::pass_at_turn(Buffer&& body, bool end) {
  pacer().add(std::move(body), end);
  pass_paced();
}

void RequestBody::pass_at_turn(Fields&& trailers) {
  pacer().add_trailers(std::move(trailers));
  pass_paced();
}

void RequestBody::take_turn() {
  if (!context_.client()) return;
  context_.note_turn();
  pass_paced();
}

// The request may end with any piece.
void RequestBody::pass_paced() {
  BodyPacer& from = pacer();
  while (context_.client() && !paused_ && from.ready()) {
    BodyPacer::Piece piece = from.take();
    Fields trailers = piece.end ? from.take_trailers() : Fields();
    const bool last = piece.end && trailers.empty();
    if (last || !piece.bytes.empty()) context_.on_request_turn(std::move(piece.bytes), last);
    if (!trailers.empty()) context_.on_request_turn(std::move(trailers));
  }
  const bool read = reads();
  if (!context_.client() || read == reading_) return;
  reading_ = read;
  context_.client()->set_reading(read);
  if (!read) return;
  context_.note_request_resumed();
  context_.session()->wake();
}

// ---- Mirrors ----

void RequestBody::begin_mirror(HttpUpstream& to) {
  const bool body_ends = context_.request_ended() && trailers_.empty();
  MirroredRequest* const made =
      MirroredRequest::begin(context_.http_worker(), to, context_.request(), body_ends && held_.empty(), mirror_);
  if (made && mirror_ == made && !held_.empty()) made->send_body(held_.clone(), body_ends);
  if (made && mirror_ == made && !trailers_.empty()) made->send_trailers(trailers_);
}

void RequestBody::mirror(Buffer& body, bool end) {
  MirroredRequest::each(mirror_, [&](MirroredRequest& copy) { copy.send_body(body.clone(), end); });
}

void RequestBody::mirror(const Fields& trailers) {
  MirroredRequest::each(mirror_, [&](MirroredRequest& copy) { copy.send_trailers(trailers); });
}

void RequestBody::cut_mirror() {
  MirroredRequest::each(mirror_, [](MirroredRequest& copy) { copy.cut(); });
}

// ---- To the upstream ----

void RequestBody::send_held(HttpStream& upstream) {
  const bool body_ends = context_.request_ended() && trailers_.empty();
  if (!held_.empty() || body_ends) pass(upstream, std::move(held_), body_ends);
  if (!trailers_.empty()) pass_trailers(upstream, std::exchange(trailers_, {}));
}

// The pieces are kept for a retry as long as they are small or the request was buffered. While memory is short, none
// are kept.
void RequestBody::pass(HttpStream& upstream, Buffer&& body, bool end) {
  const config::HttpRoute& route = *context_.route();
  const uint64_t most = buffer_ ? route.buffer->requests.bytes : kMaxKeptBytes;
  const uint64_t room = context_.loop().in_reserve() ? 0 : most;
  if ((route.retry || buffer_) && !lost_ && kept_.size() + body.size() <= room) {
    kept_.append(body.clone());
  } else {
    lost_ = true;
    kept_.clear();
  }
  upstream.send_body(std::move(body), end);
}

void RequestBody::pass_trailers(HttpStream& upstream, Fields&& trailers) {
  upstream.send_trailers(trailers);
  if (!context_.route()->retry || lost_) {
    lost_ = true;
  } else {
    trailers_ = std::move(trailers);
  }
}

void RequestBody::take_back() {
  kept_.append(std::move(held_));
  if (buffer_) {
    buffer_->put_back(std::move(kept_));
    all_passed_ = false;
  } else {
    held_ = std::move(kept_);
  }
}

void RequestBody::send_copy(HttpStream& upstream, const Head& head) {
  const bool body_ends = trailers_.empty();
  Buffer body = kept_.clone();
  body.append(held_.clone());
  upstream.send_head(head, body_ends && body.empty());
  if (!body.empty()) upstream.send_body(std::move(body), body_ends);
  if (!body_ends) upstream.send_trailers(trailers_);
}

// ---- The buffer ----

void RequestBody::begin_buffering(uint64_t most_bytes) {
  const auto moved = [](void* self) { static_cast<RequestBody*>(self)->context_.on_request_moved(); };
  buffer_ = context_.make_body_buffer(most_bytes, moved, this);
  collecting_ = true;
  buffer_->add(std::move(held_));
}

void RequestBody::end_buffering() {
  collecting_ = false;
  buffer_.reset();
}

void RequestBody::add_to_buffer(Buffer&& body) { buffer_->add(std::move(body)); }

bool RequestBody::take_collected() {
  if (!collecting_ || !(context_.request_ended() || buffer_->stays_full())) return false;
  collecting_ = false;
  return true;
}

bool RequestBody::pass_buffered(HttpStream& upstream) {
  bool passed = false;
  for (const size_t most = BodyBuffer::share(context_.loop()); !all_passed_ && upstream.queued() < most;) {
    Buffer piece = buffer_->take(most);
    all_passed_ = context_.request_ended() && buffer_->empty();
    if (piece.empty() && !all_passed_) break;
    passed = true;
    pass(upstream, std::move(piece), all_passed_ && trailers_.empty());
    if (all_passed_ && !trailers_.empty()) pass_trailers(upstream, std::exchange(trailers_, {}));
  }
  return passed;
}

size_t RequestBody::pinned() const { return held_.size() + (buffer_ ? buffer_->memory_bytes() : 0); }

void RequestBody::store() { buffer_->store(); }

void RequestBody::follow_buffer() {
  if (!context_.request_ended() && buffer_->full() != paused_) pause(!paused_);
}

bool RequestBody::add_content_length() {
  constexpr std::string_view kLength = "content-length";
  if (!buffer_ || !context_.request_ended() || !trailers_.empty()) return true;
  Fields& fields = context_.request().fields;
  if (fields.find(kLength) != Fields::npos) return true;
  std::array<char, 24> digits;
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), bytes_).ptr;
  return fields.add(context_.pool(), kLength, {digits.data(), end});
}

// ---- From the client ----

void RequestBody::pause(bool paused) {
  paused_ = paused;
  reading_ = reads();
  context_.client()->set_reading(reading_);
  if (paused) return;
  context_.session()->wake();
  if (paced_) pacer().call_soon();
}

void RequestBody::drop_held() {
  held_.clear();
  if (paced_) pacer().stop();
  paused_ = paced_ = false;
  if (!reading_) context_.client()->set_reading(true);
  reading_ = true;
}

void RequestBody::clear() {
  held_.clear();
  kept_.clear();
  if (paced_) pacer().stop();
}

}  // namespace sluice
