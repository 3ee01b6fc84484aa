#include "proxy/http/h1/http1_codec.h"

#include <algorithm>
#include <new>
#include <utility>

#include "proxy/http/h1/writer.h"

namespace sluice {

using http1::BodyReader;
using http1::Error;
using http1::Framing;
using http1::HeadScan;
using http1::Writer;

namespace {

// The most windows of an incomplete head before it is compacted, because each window may pin a chunk.
constexpr size_t kMaxHeadWindows = 8;

// The most bytes of a request's body that are read and dropped after its response so that the connection can persist:
// about what was in flight when the client got the refusal. Reading more is not worth the bandwidth. (nginx drops
// without a bound.) Of a chunked body all bytes count, not only its data.
constexpr uint32_t kDroppedBytes = uint32_t{64} * 1024;

std::string_view text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace

Http1Codec::~Http1Codec() { pending_tunnel_.reset(); }

// ---- Reading ----

HttpCodec::Status Http1Codec::receive(Buffer&& bytes) {
  if (status_ == Status::kOpen && persistence_ != Persistence::kEndsUnread) {
    if (!bytes.empty()) {
      head_allowed_ = head_allowed_ || (!in_exchange() && input_.empty());
      input_.append(std::move(bytes));
      if (input_waits_) return status_;  // Only a call without bytes resumes it.
    }
  } else {
    bytes.clear();
  }
  run();
  return status_;
}

HttpCodec::Status Http1Codec::receive_end(End how) {
  const Peer to = how == End::kOrderly ? Peer::kEnded : how == End::kCut ? Peer::kCut : Peer::kLost;
  SLUICE_DCHECK(to >= peer_);
  peer_ = to;
  run();
  if (how == End::kLost && status_ == Status::kOpen) lose("the connection was lost");
  return status_;
}

void Http1Codec::run() {
  if (running_) return;
  running_ = true;
  while (status_ == Status::kOpen && step()) {
  }
  if (reset_owed_ && receiver_) {
    reset_owed_ = false;
    receiver_->on_reset(*this, owed_reason_);
  }
  if (status_ != Status::kOpen) {
    input_.clear();
    scan_.reset();
    input_waits_ = false;
  }
  running_ = false;
  note_fullness();
}

// Returns false when there is nothing to do until more input arrives or the receiver resumes reading. After a loss,
// what has arrived is delivered at once: the receiver is about to learn of it.
bool Http1Codec::step() {
  switch (in_) {
    case In::kHead:
      return read_head();
    case In::kBody:
      return (reading_ || peer_ == Peer::kLost) && read_body();
    case In::kTrailers:
      return (reading_ || peer_ == Peer::kLost) && read_trailers();
    case In::kHeld:
      return false;
    case In::kDone:
      return after_message();
  }
  return false;
}

Http1Codec::Scan Http1Codec::scan_head(const HeadScan::Limits& limits) {
  Error error;
  switch (scan_.scan(input_, limits, error)) {
    case HeadScan::Result::kComplete:
      return Scan::kComplete;
    case HeadScan::Result::kFailed:
      if (drops_trailers(error)) return Scan::kTooLarge;
      fail(error);
      return Scan::kFailed;
    case HeadScan::Result::kMore:
      break;
  }
  if (peer_ended()) {
    lose("the connection ended within a head");
    return Scan::kFailed;
  }
  if (input_.window_count() > kMaxHeadWindows) input_.compact(pool_);
  return Scan::kMore;
}

// Returns the first `bytes` of the input. If they span several windows, it copies them to `whole`.
std::string_view Http1Codec::contiguous_input(size_t bytes, Lease& whole) {
  const std::span<const std::byte> first = input_.window(0);
  if (first.size() >= bytes) return text_of(first.first(bytes));
  whole = Lease(ChunkRef::take(pool_.get_metadata(bytes)), 0, bytes);
  input_.copy_out(0, whole.bytes());
  return text_of(whole.bytes());
}

bool Http1Codec::read_body() {
  Buffer body;
  Error error;
  const bool dropping = exchange_ == Exchange::kReleased;
  const size_t bytes_before = input_.size();
  switch (body_.read(pool_, input_, body, options_.limits.chunk_extension_bytes, error)) {
    case BodyReader::Result::kFailed:
      // Delivers the valid part first, so that the result does not depend on how the bytes were split.
      if (!body.empty() && receiver_) receiver_->on_body(*this, std::move(body), false);
      return status_ == Status::kOpen && fail(error);
    case BodyReader::Result::kEnd:
      end_input();
      break;
    case BodyReader::Result::kTrailers:
      in_ = In::kTrailers;
      if (body.empty() && !dropping) return true;
      break;
    case BodyReader::Result::kMore:
      if (!peer_ended()) {
        if (body.empty() && !(dropping && input_.size() < bytes_before)) return false;
      } else if (body_.framing() == Framing::kUntilEnd && peer_ == Peer::kEnded) {
        end_input();
      } else if (body.empty()) {
        return lose("the connection ended within a body");
      }
      break;
  }
  if (dropping) {
    body.clear();
    const size_t bytes = bytes_before - input_.size();
    if (bytes > drop_left_) {
      // The rest turns out to be large. The response is out, so this only ends the connection.
      reset(ResetReason::kCancelled);
    } else {
      drop_left_ -= static_cast<uint32_t>(bytes);
    }
  } else {
    receiver_->on_body(*this, std::move(body), in_ == In::kDone);
  }
  settle_exchange();
  return true;
}

bool Http1Codec::read_trailers() {
  switch (scan_head({0, options_.limits.head_bytes, options_.limits.fields})) {
    case Scan::kComplete:
      break;
    case Scan::kTooLarge:
      return drop_trailers();
    case Scan::kMore:
    case Scan::kFailed:
      return false;
  }
  Fields trailers;
  if (const Error error = take_head([&](std::string_view bytes, size_t) {
        return http1::read_trailers(bytes, server_, options_, counters_, pool_, trailers);
      })) {
    return drops_trailers(error) ? drop_trailers() : fail(error);
  }
  end_message(std::move(trailers));
  return true;
}

// A response is complete without its trailers, and a recipient may discard them (RFC 9110 section 6.5.1). Oversized
// trailers of a request are refused, as its head would be.
bool Http1Codec::drops_trailers(const Error& error) const {
  return in_ == In::kTrailers && !server_ && error.reason == ResetReason::kTooLarge;
}

bool Http1Codec::drop_trailers() {
  ++counters_.trailers_dropped;
  SLUICE_DCHECK(persistence_ < Persistence::kEndsUnread);
  persistence_ = Persistence::kEndsUnread;  // The rest of the trailers may still arrive.
  input_.clear();
  scan_.reset();
  end_message({});
  return true;
}

void Http1Codec::end_message(Fields&& trailers) {
  end_input();
  if (exchange_ == Exchange::kOpen) {
    if (trailers.empty()) {
      receiver_->on_body(*this, Buffer(), true);
    } else {
      receiver_->on_trailers(*this, std::move(trailers));
    }
  }
  settle_exchange();
}

bool Http1Codec::wants_bytes() const {
  if (status_ != Status::kOpen || peer_ended()) return false;
  switch (in_) {
    case In::kBody:
    case In::kTrailers:
      return reading_;
    case In::kHead:
      if (!output_full() && !input_waits_) return true;
      break;
    case In::kHeld:
    case In::kDone:
      break;
  }
  return input_.size() < options_.limits.pipelined_bytes;
}

void Http1Codec::note_fullness() {
  const bool full = status_ == Status::kOpen && (in_ == In::kHeld || in_ == In::kDone) && !wants_bytes();
  if (full && !full_) ++counters_.pipelines_full;
  full_ = full;
}

void Http1Codec::park() {
  input_.compact(pool_);
  output_.compact(pool_);
}

// ---- Sending ----

void Http1Codec::flush(Buffer& out) {
  out.append(std::move(output_));
  head_unsent_ = false;
  const bool holds = pending_tunnel_ && !pending_tunnel_->held.empty();  // Body is held until the tunnel is accepted.
  const bool drained = body_queued_ && !holds && receiver_ && out_ == Out::kBody;
  body_queued_ = holds;
  if (drained) receiver_->on_drained(*this);
}

void Http1Codec::send_body(Buffer&& body, bool end) {
  Buffer bytes = std::move(body);  // Consumes it in any case.
  if (status_ != Status::kOpen || out_ != Out::kBody) return;
  body_queued_ = body_queued_ || !bytes.empty();
  if (pending_tunnel_) {  // Not accepted yet. Its end here would be our own refusal.
    pending_tunnel_->held.append(std::move(bytes));
    if (end) fail_sending("a tunnel that ended before it was accepted");
    return;
  }
  switch (out_framing_) {
    case Framing::kNone:
      if (!bytes.empty()) ++counters_.bodies_dropped;
      break;
    case Framing::kLength:
      if (bytes.size() > out_left_) return fail_sending("more body than its Content-Length");
      out_left_ -= bytes.size();
      if (end && out_left_ > 0) return fail_sending("less body than its Content-Length");
      output_.append(std::move(bytes));
      break;
    case Framing::kChunked:
      write_chunk(std::move(bytes), end);
      break;
    case Framing::kUntilEnd:
      output_.append(std::move(bytes));
      break;
  }
  if (end) end_output();
}

void Http1Codec::write_chunk(Buffer&& body, bool end) {
  constexpr size_t kFrameBytes = 32;
  if (!body.empty()) {
    {
      Writer writer(output_, pool_, kFrameBytes);
      writer.number(body.size(), 16);
      writer.text("\r\n");
    }
    output_.append(std::move(body));
    Writer(output_, pool_, kFrameBytes).text(end ? "\r\n0\r\n\r\n" : "\r\n");
  } else if (end) {
    Writer(output_, pool_, kFrameBytes).text("0\r\n\r\n");
  }
}

void Http1Codec::send_trailers(const Fields& trailers) {
  if (status_ != Status::kOpen || out_ != Out::kBody) return;
  if (out_framing_ != Framing::kChunked) return send_body(Buffer(), true);  // This framing has no trailers.
  if (!http1::are_safe(trailers)) return fail_sending("a trailer field that cannot be written");
  {
    Writer writer(output_, pool_, http1::written_bytes(trailers) + 8);
    writer.text("0\r\n");
    writer.fields(trailers);
    writer.text("\r\n");
  }
  end_output();
}

void Http1Codec::end_output() {
  SLUICE_DCHECK(out_ == Out::kBody);
  out_ = Out::kDone;
  settle_exchange();
}

// ---- The exchange ----

bool Http1Codec::rest_is_small() const {
  if (in_ == In::kTrailers) return true;
  return in_ == In::kBody && body_.framing() == Framing::kLength && body_.left() <= kDroppedBytes;
}

bool Http1Codec::rest_is_here() {
  if (in_ != In::kBody || body_.framing() != Framing::kChunked) return false;
  BodyReader reader = body_;
  Buffer rest = input_.clone(), body;
  Error error;
  if (rest.size() > kDroppedBytes) rest.truncate(kDroppedBytes);
  if (reader.read(pool_, rest, body, options_.limits.chunk_extension_bytes, error) != BodyReader::Result::kTrailers) {
    return false;
  }
  HeadScan scan;
  return scan.scan(rest, {0, options_.limits.head_bytes, options_.limits.fields}, error) == HeadScan::Result::kComplete;
}

void Http1Codec::begin_exchange(StreamReceiver& receiver, Persistence persistence) {
  SLUICE_DCHECK(status_ == Status::kOpen && !in_exchange() && persists() && in_ == In::kHead);
  receiver_ = &receiver;
  exchange_ = Exchange::kOpen;
  persistence_ = persistence;
  reading_ = true;
  line_skipped_ = false;
  informational_ = 0;
  out_ = Out::kHead;
  out_framing_ = Framing::kNone;
}

void Http1Codec::settle_exchange() {
  if (!in_exchange() || !ended() || receiver_) return;
  exchange_ = Exchange::kNone;
  head_kib_ = 0;
  in_ = In::kHead;
  pending_tunnel_.reset();
  if (status_ == Status::kOpen && (!persists() || (draining_ && input_.empty()))) end_connection();
}

std::vector<StreamReceiver*> Http1Codec::receivers() const {
  return receiver_ ? std::vector<StreamReceiver*>{receiver_} : std::vector<StreamReceiver*>();
}

bool Http1Codec::can_move() const {
  if (status_ != Status::kOpen || peer_ended()) return false;
  return idle() || (in_tunnel() && receiver_ && in_ == In::kBody && out_ == Out::kBody);
}

void Http1Codec::release() {
  if (!in_exchange()) return;
  SLUICE_DCHECK(exchange_ == Exchange::kOpen);
  reset_owed_ = false;
  // How much is left of a chunked body becomes known only as it arrives.
  const bool perhaps_small = rest_is_small() || (in_ == In::kBody && body_.framing() == Framing::kChunked);
  if (server_ && status_ == Status::kOpen && out_ == Out::kDone && persists() && !peer_ended() && perhaps_small) {
    exchange_ = Exchange::kReleased;
    drop_left_ = kDroppedBytes;
    reading_ = true;
  } else {
    reset(ResetReason::kCancelled);
  }
  receiver_ = nullptr;
  settle_exchange();
}

// HTTP/1.1 can abandon an incomplete message only by ending the connection, or by reading a small remainder of it,
// unless nothing of it has left.
void Http1Codec::reset(ResetReason) {
  if (!in_exchange() || ended()) return;
  SLUICE_DCHECK(status_ == Status::kOpen);
  if (head_unsent_ && persists() && !peer_ended()) return take_back();
  // Input after a complete response is ignored, but a partial response must not look complete.
  if (out_over()) {
    status_ = Status::kEnded;
  } else {
    fail_connection("the stream was reset");
  }
  abandon();
}

// The connection serves the next request, as if there had been none.
void Http1Codec::take_back() {
  SLUICE_DCHECK(!server_ && in_ == In::kHead && input_.empty());
  output_.clear();
  head_unsent_ = body_queued_ = false;
  in_ = In::kDone;
  out_ = Out::kDone;
}

void Http1Codec::abandon() {
  SLUICE_DCHECK(in_exchange() || out_ != Out::kBody);
  in_ = In::kDone;
  if (!out_over()) out_ = out_ == Out::kBody ? Out::kCut : Out::kDone;
  pending_tunnel_.reset();
}

bool Http1Codec::fail(const Error& error) {
  switch (error.reason) {
    case ResetReason::kConnectionLost:
      ++counters_.lost;
      break;
    case ResetReason::kTooLarge:
      ++counters_.too_large;
      report(error);
      break;
    case ResetReason::kOverload:  // Counted where it was detected.
      if (error.status != 0) report(error);
      break;
    default:
      report(error);
      ++(error.status == 417 || error.status == 501 || error.status == 505 ? counters_.unsupported
                                                                           : counters_.malformed);
  }
  fail_connection(error.what);
  respond(error);
  const bool notify = in_exchange() && !ended();
  abandon();
  if (notify && receiver_) receiver_->on_reset(*this, error.reason);
  return false;
}

void Http1Codec::shed(const char* why) {
  if (status_ == Status::kOpen) fail({0, ResetReason::kOverload, why});
}

void Http1Codec::fail_sending(const char* what) {
  ++counters_.malformed;
  fail_connection(what);
  reset_owed_ = !ended();
  owed_reason_ = ResetReason::kUnsendable;
  abandon();
}

// ---- Tunnels ----

void Http1Codec::await_tunnel(const http1::WebsocketAccept& accept) {
  pending_tunnel_ = make_in_chunk<PendingTunnel>(pool_, PendingTunnel{.accept = accept, .held = {}});
}

void Http1Codec::begin_tunnel() {
  SLUICE_DCHECK(pending_tunnel_ && (in_ == In::kHead || in_ == In::kHeld) && out_ == Out::kBody);
  persistence_ = Persistence::kTunnel;
  in_ = In::kBody;
  body_.begin(Framing::kUntilEnd, 0);
  out_framing_ = Framing::kUntilEnd;
  output_.append(std::move(pending_tunnel_->held));
  pending_tunnel_.reset();
}

}  // namespace sluice
