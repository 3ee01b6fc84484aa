#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "proxy/http/h1/body_reader.h"
#include "proxy/http/h1/error.h"
#include "proxy/http/h1/head_reader.h"
#include "proxy/http/h1/head_scan.h"
#include "proxy/http/h1/limits.h"
#include "proxy/http/message/codec.h"
#include "sluice/buffer.h"
#include "sluice/chunk_pointer.h"

namespace sluice {

/// The common part of both sides of an HTTP/1.1 connection (RFC 9112). There is one exchange at a time, so the
/// connection is its own stream: bytes of the next exchange wait, unread, until both directions have ended and the
/// receiver has released the stream.
///
/// queued() counts all bytes that flush() has not taken. An owner that wants queued() to reflect a slow peer does not
/// flush while its socket has enough queued.
class Http1Codec : public HttpCodec, protected HttpStream {
 public:
  ~Http1Codec() override;
  Http1Codec(const Http1Codec&) = delete;
  Http1Codec& operator=(const Http1Codec&) = delete;

  Status receive(Buffer&& bytes) final;
  Status receive_end(End how = End::kOrderly) final;
  bool mid_head() const final { return exchange_ ? dropping_ : !input_.empty() && !output_full(); }
  size_t held_bytes() const final { return input_.size() + size_t{head_kib_} * 1024; }
  void shed(const char* why) final;
  bool has_output() const final { return !output_.empty(); }
  void flush(Buffer& out) final;
  uint32_t streams() const final { return exchange_ && !ended() ? 1 : 0; }
  std::string_view error() const final { return error_ ? error_ : std::string_view(); }
  void park() final;

  Status status() const final { return status_; }
  /// False while the receiver has paused reading, or too many pipelined requests wait.
  bool wants_bytes() const final;
  /// Whether no exchange and no partial head is in progress. The owner uses it to choose which of its timers runs.
  bool idle() const { return !exchange_ && input_.empty(); }
  uint32_t requests() const { return requests_; }
  /// Whether the connection has become a tunnel and carries no more messages.
  bool in_tunnel() const { return tunnel_; }
  bool output_cut() const final { return output_cut_; }
  bool cut_shows() const final {
    return out_framing_ == http1::Framing::kLength || out_framing_ == http1::Framing::kChunked;
  }
  bool output_ended() const final { return tunnel_ && out_ == Out::kDone && status_ == Status::kOpen; }

 protected:
  // The state of the message being received, and of the message being sent.
  enum class In : uint8_t {
    kHead,  ///< Also between messages.
    kBody,
    kTrailers,
    kHeld,  ///< The peer awaits the decision on a tunnel; nothing is read until then.
    kDone,
  };
  enum class Out : uint8_t { kHead, kBody, kDone };
  /// State of a pending upgrade or CONNECT, in a chunk of its own.
  struct PendingTunnel {
    http1::WebsocketAccept accept{};
    Buffer held;  ///< Of a client: output held until the tunnel is accepted.
  };

  Http1Codec(ChunkPool& pool, const Http1Options& options, Http1Counters& counters, bool server)
      : pool_(pool), options_(options), counters_(counters), server_(server) {}

  // HttpStream
  void send_body(Buffer&& body, bool end) final;
  void send_trailers(const Fields& trailers) final;
  void reset(ResetReason reason) final;
  bool sent_all() const final { return out_ == Out::kDone; }
  size_t queued() const final { return output_.size() + (pending_tunnel_ ? pending_tunnel_->held.size() : 0); }
  void set_reading(bool reading) final { reading_ = reading; }
  void hand_over(StreamReceiver& receiver) final { receiver_ = &receiver; }
  void release() final;

  /// Whether so much output waits for the peer that the next message is not read until some of it has gone out.
  /// Otherwise a client that pipelines requests and reads no responses would make us queue responses without bound.
  bool output_full() const { return output_.size() >= options_.limits.pipelined_output_bytes; }
  /// Reads a head from the input. Returns false when there is nothing to do until more input arrives.
  virtual bool read_head() = 0;
  /// Called when the peer's message is complete. Returns false when there is nothing to do until more input arrives.
  virtual bool after_message() = 0;
  /// Called after an error, or when the peer has gone. A server may still respond.
  virtual void respond(const http1::Error& error) = 0;

  enum class Scan : uint8_t {
    kMore,
    kComplete,
    kTooLarge,  ///< A trailer section over a limit, which is dropped.
    kFailed,
  };
  /// Looks for the end of a head. Handles errors, and the end of the peer's output.
  Scan scan_head(const http1::HeadScan::Limits& limits);
  /// Calls `read(std::string_view head, size_t fields)` with the complete head, and removes it from the input.
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
  /// Whether both directions are over. The receiver gets no further calls then.
  bool ended() const { return in_ == In::kDone && out_ == Out::kDone; }
  /// Ends the exchange once both directions are over, and with the last exchange the connection. Must be called after
  /// anything that may have ended a direction.
  void settle_exchange();
  virtual void end_exchange() {}
  void end_output();
  /// Whether the unread rest of the received message is small enough to read and drop.
  bool rest_is_small() const;
  /// Whether the whole rest of a chunked body has already arrived and is small enough to drop.
  bool rest_is_here();
  bool fail(const http1::Error& error);
  /// Like fail(), for errors in a call to the stream: the receiver learns of it later.
  void fail_sending(const char* what);
  bool lose(const char* what) { return fail({0, ResetReason::kConnectionLost, what}); }
  void await_tunnel(const http1::WebsocketAccept& accept);
  void begin_tunnel();

  ChunkPool& pool_;
  const Http1Options& options_;
  Http1Counters& counters_;
  StreamReceiver* receiver_ = nullptr;
  ChunkPointer<PendingTunnel> pending_tunnel_;
  const char* error_ = nullptr;
  Buffer input_;           // Unread bytes, or part of an incomplete message.
  Buffer output_;          // Waits for flush().
  uint64_t out_left_ = 0;  // Body bytes left to send, with Framing::kLength.
  http1::BodyReader body_;
  http1::HeadScan scan_;
  uint32_t requests_ = 0;
  uint32_t drop_left_ = 0;  // Bytes that may still be dropped while dropping_.
  Status status_ = Status::kOpen;
  In in_ = In::kHead;
  Out out_ = Out::kHead;
  http1::Framing out_framing_ = http1::Framing::kNone;
  ResetReason owed_reason_ = ResetReason::kInternal;
  uint8_t head_kib_ = 0;     // Memory that this exchange's request holds: one chunk at most.
  uint16_t own_status_ = 0;  // The status of a server's own response.
  uint8_t informational_ = 0;
  const bool server_ : 1;
  bool exchange_ : 1 = false;
  bool reading_ : 1 = true;
  bool running_ : 1 = false;     // Receivers are being called.
  bool peer_ended_ : 1 = false;  // The peer sends nothing more.
  bool cut_ : 1 = false;         // Its end was not signaled.
  bool lost_ : 1 = false;        // The connection has failed.
  bool draining_ : 1 = false;
  bool dropping_ : 1 = false;  // Drops the rest of a request whose stream was released after the response.
  bool close_ : 1 = false;     // The connection ends with this exchange.
  bool tunnel_ : 1 = false;
  bool output_cut_ : 1 = false;
  bool reset_owed_ : 1 = false;
  bool body_queued_ : 1 = false;  // Body was queued since the last flush.
  bool full_ : 1 = false;         // Reading is paused because too many pipelined bytes wait.
  bool skipping_ : 1 = false;     // Ignores all further input: the connection ends with this exchange.
  // The request of this exchange.
  bool head_unsent_ : 1 = false;  // Of a client: not flushed yet, so no response is possible yet.
  bool head_method_ : 1 = false;
  bool websocket_ : 1 = false;
  bool connect_ : 1 = false;
  bool expects_ : 1 = false;  // A 100 Continue is expected and was not sent yet.
  bool version_1_0_ : 1 = false;
  bool line_skipped_ : 1 = false;  // An empty line before the request was skipped.

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
