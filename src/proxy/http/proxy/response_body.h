#pragma once

#include <cstddef>
#include <cstdint>

#include "proxy/compression/content_coding.h"
#include "proxy/http/message/fields.h"
#include "sluice/buffer.h"
#include "sluice/chunk_pointer.h"
#include "sluice/internal/check.h"

namespace sluice {

class Bandwidth;
class BodyBuffer;
class BodyPacer;
class RequestContext;
struct ResponseCompression;

/// The body of a response on its way to the client, which may be compressed, may wait in a buffer for a slow client,
/// and may be paced.
class ResponseBody {
 public:
  explicit ResponseBody(RequestContext& context);
  ~ResponseBody();
  ResponseBody(const ResponseBody&) = delete;
  ResponseBody& operator=(const ResponseBody&) = delete;

  // How far the response is.
  bool begun() const { return state_ != State::kNone; }
  /// Whether all of it has arrived.
  bool ended() const { return state_ == State::kEnded; }
  /// Whether it ends early: as soon as the client has the part that arrived.
  bool cut() const { return state_ == State::kCut; }
  void begin() {
    SLUICE_CHECK(state_ == State::kNone);
    state_ = State::kBegun;
  }
  void end() {
    SLUICE_CHECK(state_ == State::kBegun);
    state_ = State::kEnded;
  }
  void cut_off();

  /// Compresses the body from now on.
  void compress(ContentCoding coding);
  /// Paces the body, as it goes to the client.
  ChunkPointer<BodyPacer> pace(const Bandwidth& limits);
  /// Whether it waits for its turn.
  bool awaits_turn() const;
  /// Whether it, or a part of it that has passed, waited for its turn.
  bool has_waited() const;
  void send(Buffer&& body, bool end);
  /// Sends the body of a response of our own. Precondition: the response has ended.
  void send_whole(Buffer&& body);
  void send_trailers(Fields&& trailers);
  /// Bytes of body sent to the client's stream.
  uint64_t bytes() const { return bytes_; }

  /// Goes on after the client has taken something.
  void resume();
  /// Bytes that wait for the client, compressed or not.
  size_t queued() const;
  /// The same with what a buffer holds in memory.
  size_t pinned() const;
  /// Whether it goes to the client's stream as it arrives.
  bool passes_through() const { return !buffer_ && !compression_ && !paced_; }
  /// Whether data waits here that the client's stream has not got.
  bool holds_data() const;
  /// Whether the upstream's stream is paused, and whether it should be from now on.
  bool paused() const { return paused_; }
  bool must_pause();
  /// Stops what could still go on by itself.
  void stop();

 private:
  enum class State : uint8_t { kNone, kBegun, kEnded, kCut };

  bool uses_buffer() const;
  void add_to_buffer(Buffer&& body);
  void buffer_moved();
  void empty_buffer();
  void pass(Buffer&& body, bool end);
  void pass_trailers(Fields&& trailers);
  BodyPacer& pacer() const;
  bool holds_for_turn() const;
  bool client_is_full() const;
  void deliver(Buffer&& body, bool end);
  void deliver_trailers(Fields&& trailers);
  void take_turn();
  void pass_paced();
  void send_to_client(Buffer&& body, bool end);
  void compress(Buffer&& body, bool end);
  void continue_compressing();
  void compress_piece();
  void pass_compressed(Buffer&& out, bool end);
  void end_compression(Buffer&& out);

  RequestContext& context_;
  ChunkPointer<BodyBuffer> buffer_;                // If the client is slow: the rest of the body passes through it.
  ChunkPointer<ResponseCompression> compression_;  // Set while the response is compressed.
  uint64_t bytes_ = 0;
  State state_ : 2 = State::kNone;
  bool paused_ : 1 = false;
  bool paced_ : 1 = false;
};

}  // namespace sluice
