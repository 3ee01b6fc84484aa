#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "buffer/buffer.h"
#include "pool/chunk_pointer.h"
#include "proxy/http/h1/body_reader.h"
#include "proxy/http/h1/error.h"
#include "proxy/http/h1/head_reader.h"
#include "proxy/http/h1/head_scan.h"
#include "proxy/http/h1/limits.h"
#include "proxy/http/message/codec.h"

namespace sluice {

/// What both sides of a connection of HTTP/1.1 have in common (RFC 9112). There is one exchange at a time, so the
/// connection is its own stream: what belongs to the next one waits, unread, until both directions have ended and the
/// receiver has released the stream.
///
/// queued() counts all that flush() has not taken. Who wants to see a slow peer there does not flush while the socket
/// has enough.
class Http1Codec : public HttpCodec, protected HttpStream {
 public:
  ~Http1Codec() override;
  Http1Codec(const Http1Codec&) = delete;
  Http1Codec& operator=(const Http1Codec&) = delete;

  Status receive(Buffer&& bytes) final;
  Status receive_end(End how = End::kSaid) final;
  bool mid_head() const final { return exchange_ ? dropping_ : !input_.empty() && !output_full(); }
  size_t held_bytes() const final { return input_.size() + size_t{head_kib_} * 1024; }
  void shed(const char* why) final;
  bool has_output() const final { return !output_.empty(); }
  void flush(Buffer& out) final;
  uint32_t streams() const final { return exchange_ && !ended() ? 1 : 0; }
  std::string_view error() const final { return error_ ? error_ : std::string_view(); }
  void park() final;

  Status status() const final { return status_; }
  /// Not while the receiver does not read, or too many requests wait.
  bool wants_bytes() const final;
  /// Whether nothing is under way: no exchange, and no part of a head. It tells which of the owner's timers runs.
  bool idle() const { return !exchange_ && input_.empty(); }
  uint32_t requests() const { return requests_; }
  /// Whether a tunnel has taken the place of messages.
  bool in_tunnel() const { return tunnel_; }
  bool output_cut() const final { return output_cut_; }
  bool cut_shows() const final {
    return out_framing_ == http1::Framing::kLength || out_framing_ == http1::Framing::kChunked;
  }
  bool output_ended() const final { return tunnel_ && out_ == Out::kDone && status_ == Status::kOpen; }

 protected:
  // What is read of the peer's message, and what was sent of ours.
  enum class In : uint8_t {
    kHead,  ///< Also between messages.
    kBody,
    kTrailers,
    kHeld,  ///< What follows is a tunnel's or nobody's: nothing is read until it is agreed on.
    kDone,
  };
  enum class Out : uint8_t { kHead, kBody, kDone };
  /// What waits for the answer to an upgrade or a CONNECT, in a chunk of its own.
  struct Asked {
    http1::WebsocketAccept accept{};
    Buffer held;  ///< A client's: it goes when the tunnel is there.
  };

  Http1Codec(ChunkPool& pool, const Http1Options& options, Http1Counters& counters, bool server)
      : pool_(pool), options_(options), counters_(counters), server_(server) {}

  // HttpStream
  void send_body(Buffer&& body, bool end) final;
  void send_trailers(const Fields& trailers) final;
  void reset(ResetReason reason) final;
  bool sent_all() const final { return out_ == Out::kDone; }
  size_t queued() const final { return output_.size() + (asked_ ? asked_->held.size() : 0); }
  void set_reading(bool reading) final { reading_ = reading; }
  void hand_over(StreamReceiver& receiver) final { receiver_ = &receiver; }
  void release() final;

  /// Whether so much of our output waits for the peer that the next message is not read before some of it has gone: who
  /// pipelines requests and takes no responses would have us queue them without a bound.
  bool output_full() const { return output_.size() >= options_.limits.pipelined_output_bytes; }
  /// Takes a head from the input. False when there is nothing to do before more comes.
  virtual bool read_head() = 0;
  /// The peer's message is complete. False as above.
  virtual bool after_message() = 0;
  /// An error was met, or the peer has gone; a server may still answer.
  virtual void answer(const http1::Error& error) = 0;

  enum class Scan : uint8_t {
    kMore,
    kComplete,
    kTooLarge,  ///< Trailers that are dropped.
    kFailed,
  };
  /// Looks for the end of a head; deals with errors, and with the end of what the peer sends.
  Scan scan_head(const http1::HeadScan::Limits& limits);
  /// Calls `read(std::string_view head, size_t fields)` with the head that was found, and takes it out of the input.
  template <typename Read>
  http1::Error take_head(Read&& read) {
    const size_t bytes = scan_.bytes(), fields = scan_.lines();
    scan_.reset();
    Lease whole;
    const http1::Error error = read(contiguous_input(bytes, whole), fields);
    input_.trim_front(bytes);
    return error;
  }
  void begin_exchange(StreamReceiver& receiver);
  /// Both directions are over: after this nothing is told any more.
  bool ended() const { return in_ == In::kDone && out_ == Out::kDone; }
  /// Call it after anything that may have ended a direction. Ends the exchange, and the connection with its last one.
  void settle_exchange();
  virtual void end_exchange() {}
  void end_output();
  /// Whether so little is left of the message that is read that it can be read and dropped.
  bool rest_is_small() const;
  /// Whether all that is left of a chunked body has come already, and is as little.
  bool rest_is_here();
  bool fail(const http1::Error& error);
  /// The same out of a call to the stream: the receiver hears of it later.
  void fail_sending(const char* what);
  bool lose(const char* what) { return fail({0, ResetReason::kConnectionLost, what}); }
  void ask(const http1::WebsocketAccept& accept);
  void begin_tunnel();

  ChunkPool& pool_;
  const Http1Options& options_;
  Http1Counters& counters_;
  StreamReceiver* receiver_ = nullptr;
  ChunkPointer<Asked> asked_;
  const char* error_ = nullptr;
  Buffer input_;           // Not looked at yet, or part of what is not complete.
  Buffer output_;          // For flush().
  uint64_t out_left_ = 0;  // With Framing::kLength.
  http1::BodyReader body_;
  http1::HeadScan scan_;
  uint32_t requests_ = 0;
  uint32_t drop_left_ = 0;  // So much may still be dropped, while dropping_.
  Status status_ = Status::kOpen;
  In in_ = In::kHead;
  Out out_ = Out::kHead;
  http1::Framing out_framing_ = http1::Framing::kNone;
  ResetReason owed_reason_ = ResetReason::kInternal;
  uint8_t head_kib_ = 0;     // What the request of this exchange holds: a chunk, at most.
  uint16_t own_status_ = 0;  // Of what a server answered by itself.
  uint8_t informational_ = 0;
  const bool server_ : 1;
  bool exchange_ : 1 = false;
  bool reading_ : 1 = true;
  bool running_ : 1 = false;     // Receivers are being called.
  bool peer_ended_ : 1 = false;  // It sends nothing more,
  bool cut_ : 1 = false;         // and has perhaps not said so,
  bool lost_ : 1 = false;        // or the connection has failed.
  bool draining_ : 1 = false;
  bool dropping_ : 1 = false;  // What is left of a request that was answered, and let go.
  bool close_ : 1 = false;     // The connection ends with this exchange.
  bool tunnel_ : 1 = false;
  bool output_cut_ : 1 = false;
  bool reset_owed_ : 1 = false;
  bool body_queued_ : 1 = false;  // Since the last flush.
  bool full_ : 1 = false;         // Reading pauses because of what waits.
  bool skipping_ : 1 = false;     // What comes is nobody's: the connection ends with this exchange.
  // Of the request of this exchange.
  bool head_unsent_ : 1 = false;  // Of a client, since the last flush: nothing can answer it yet.
  bool head_method_ : 1 = false;
  bool websocket_ : 1 = false;
  bool connect_ : 1 = false;
  bool expects_ : 1 = false;  // 100 Continue, which was not sent yet.
  bool version_1_0_ : 1 = false;
  bool line_skipped_ : 1 = false;  // An empty one before the request.

 private:
  void run();
  bool step();
  bool read_body();
  bool read_trailers();
  bool drops_trailers(const http1::Error& error) const;
  bool drop_trailers();
  void end_message(Fields&& trailers);
  void note_fullness();
  std::string_view contiguous_input(size_t bytes, Lease& whole);
  void write_chunk(Buffer&& body, bool end);
};

}  // namespace sluice
