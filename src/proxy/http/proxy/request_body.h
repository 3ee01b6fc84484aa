#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

#include "proxy/http/message/fields.h"
#include "proxy/http/message/head.h"
#include "proxy/http/message/stream.h"
#include "sluice/buffer.h"
#include "sluice/chunk_pointer.h"

namespace sluice {

class Bandwidth;
class BodyBuffer;
class BodyPacer;
class HttpUpstream;
class MirroredRequest;
class RequestContext;

/// The body of a request on its way from the client to the upstream: what waits for a stream, what is kept in case the
/// request has to be resent, the buffer of a route that buffers requests, and the mirrors that get copies.
class RequestBody {
 public:
  explicit RequestBody(RequestContext& context);
  ~RequestBody();
  RequestBody(const RequestBody&) = delete;
  RequestBody& operator=(const RequestBody&) = delete;

  /// Counts bytes that have arrived.
  void count(size_t bytes) { bytes_ += bytes; }
  uint64_t bytes() const { return bytes_; }

  // Where its bandwidth is limited, all that arrives waits for its turn, and then comes back by on_request_turn().
  ChunkPointer<BodyPacer> pace(const Bandwidth& limits);
  bool paced() const { return paced_; }
  /// Whether it waits for its turn.
  bool awaits_turn() const;
  bool has_waited() const;
  /// Precondition: paced().
  void pass_at_turn(Buffer&& body, bool end);
  void pass_at_turn(Fields&& trailers);

  // Each mirror gets a copy of all that arrives.
  void begin_mirror(HttpUpstream& to);
  void mirror(Buffer& body, bool end);
  void mirror(const Fields& trailers);
  /// Gives the mirrors up that do not have the whole request.
  void cut_mirror();
  bool mirrored() const { return mirror_ != nullptr; }

  // Before there is a stream.
  void hold(Buffer&& body) { held_.append(std::move(body)); }
  void hold_trailers(Fields&& trailers) { trailers_ = std::move(trailers); }
  size_t held() const { return held_.size(); }
  /// Bytes that wait here in memory; what is kept of those that were sent does not count.
  size_t pinned() const;
  /// Whether nothing waits to follow the head.
  bool empty() const { return held_.empty() && trailers_.empty(); }
  /// Drops what waits, and reads on.
  void drop_held();

  // To a stream of the upstream.
  void send_held(HttpStream& upstream);
  void pass(HttpStream& upstream, Buffer&& body, bool end);
  void pass_trailers(HttpStream& upstream, Fields&& trailers);

  // For retries and hedges.
  /// Whether no upstream has part of the body of which no copy was kept.
  bool can_be_resent() const { return !lost_; }
  /// Makes the whole body ready to be resent.
  void take_back();
  /// A hedge has been sent all that waits.
  void note_held_sent() { kept_.append(std::move(held_)); }
  /// The request will not be resent.
  void forget_kept() { kept_.clear(); }
  /// Whether all that was sent and all that waits is small enough to be copied.
  bool can_be_copied() const { return kept_.size() + held_.size() <= kMaxKeptBytes; }
  /// Sends a copy of the whole request.
  void send_copy(HttpStream& upstream, const Head& head);

  // Where the route buffers requests, the whole body passes through a buffer.
  bool buffered() const { return buffer_ != nullptr; }
  /// Whether the request is sent only when enough of it is in the buffer.
  bool collecting() const { return collecting_; }
  void begin_buffering(uint64_t most_bytes);
  void end_buffering();
  void add_to_buffer(Buffer&& body);
  /// Whether the request that was collected can be sent now, which is true once.
  bool take_collected();
  /// Passes on as much as the stream takes now. Returns whether it was anything.
  bool pass_buffered(HttpStream& upstream);
  /// Writes to the file what nothing takes now.
  void store();
  /// Whether the buffer has nothing to pass on any more.
  bool passed_on() const { return !buffer_ || all_passed_; }
  /// Adds the Content-Length, which is known if all of the request is in the buffer. Some upstreams accept no body
  /// without it. Returns false if the head has no room.
  [[nodiscard]] bool add_content_length();

  // Whether the client is read.
  bool paused() const { return paused_; }
  bool reads() const;
  void pause(bool paused);
  /// Pauses while the buffer is full.
  void follow_buffer();

  /// Frees what it holds, and stops what could still go on by itself.
  void clear();

 private:
  BodyPacer& pacer() const;
  void pass_paced();
  void take_turn();
  /// How much of a body is kept until the response begins, in case the request has to be retried. The usual setting of
  /// Envoy's per_request_buffer_limit.
  static constexpr size_t kMaxKeptBytes = size_t{64} * 1024;

  RequestContext& context_;
  Buffer held_;                        // Received before there was a stream.
  Buffer kept_;                        // Sent, but may have to be resent.
  Fields trailers_;                    // To be sent after the body, or resent.
  MirroredRequest* mirror_ = nullptr;  // The first of those that wait for more of the request.
  ChunkPointer<BodyBuffer> buffer_;
  uint64_t bytes_ = 0;
  bool lost_ : 1 = false;  // An upstream has part of the body, and no copy was kept.
  bool collecting_ : 1 = false;
  bool all_passed_ : 1 = false;  // All of buffer_ was passed on.
  bool paused_ : 1 = false;      // By pause().
  bool reading_ : 1 = true;      // Whether the client is read.
  bool paced_ : 1 = false;
};

}  // namespace sluice
