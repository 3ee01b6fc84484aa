#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "proxy/http/h1/body_reader.h"
#include "proxy/http/h1/error.h"
#include "proxy/http/h1/head_reader.h"
#include "proxy/http/h1/head_scan.h"
#include "proxy/http/h1/limits.h"
#include "proxy/http/message/codec.h"
#include "sluice/buffer.h"
#include "sluice/chunk_pointer.h"
#include "sluice/internal/check.h"

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
  bool mid_head() const final {
    if (exchange_ != Exchange::kNone) return exchange_ == Exchange::kReleased;
    return !input_.empty() && !output_full() && !input_waits_;
  }
  size_t held_bytes() const final { return input_.size() + size_t{head_kib_} * 1024; }
  void shed(const char* why) final;
  bool has_output() const final { return !output_.empty(); }
  void flush(Buffer& out) final;
  uint32_t streams() const final { return in_exchange() && !ended() ? 1 : 0; }
  std::string_view error() const final { return error_ ? error_ : std::string_view(); }
  void park() final;

  Status status() const final { return status_; }
  /// False while the receiver has paused reading, or too many pipelined requests wait.
  bool wants_bytes() const final;
  bool input_waits() const final { return input_waits_; }
  /// Whether no exchange and no partial head is in progress. The owner uses it to choose which of its timers runs.
  bool idle() const { return !in_exchange() && input_.empty(); }
  uint32_t requests() const { return requests_; }
  /// Whether the connection has become a tunnel and carries no more messages.
  bool in_tunnel() const { return persistence_ == Persistence::kTunnel; }
  std::vector<StreamReceiver*> receivers() const final;
  bool can_move() const final;
  bool holds_tunneled_bytes() const final { return in_tunnel() && !input_.empty(); }
  bool output_cut() const final { return out_ == Out::kCut; }
  bool cut_shows() const final {
    return out_framing_ == http1::Framing::kLength || out_framing_ == http1::Framing::kChunked;
  }
  bool output_ended() const final { return in_tunnel() && out_ == Out::kDone && status_ == Status::kOpen; }

 protected:
  // The states of a connection. Each transition is in one place and asserts where it comes from.
  //
  //   Exchange   comes from    In                 Out            receiver
  //   kNone      the others    kHead              kHead or over  none
  //   kOpen      kNone         any (*)            any            calls follow until both directions are over
  //   kReleased  kOpen         kBody, kTrailers   kDone          none
  //   (*) kHead only of a client: a server begins the exchange with the request's head.
  //
  //   In         comes from                  Out    comes from
  //   kHead      kDone, with the exchange    kHead  the others, with the next exchange
  //   kHeld      kHead                       kBody  kHead
  //   kBody      kHead, kHeld                kDone  kBody
  //   kTrailers  kBody                       kCut   kBody
  //   kDone      any
  //
  // A reset or a failure ends both directions from wherever they are (abandon). Without an exchange, it leaves In at
  // kDone, and the connection is over.

  /// The one exchange that the connection may be in.
  enum class Exchange : uint8_t {
    kNone,
    kOpen,      ///< Has a receiver.
    kReleased,  ///< The receiver has released the stream after its response. The rest of the request is dropped.
  };
  /// The message being received.
  enum class In : uint8_t {
    kHead,  ///< Also between messages.
    kBody,
    kTrailers,
    kHeld,  ///< The peer awaits the decision on a tunnel; nothing is read until then.
    kDone,
  };
  /// The message being sent. The last two are over: nothing more is sent in this exchange.
  enum class Out : uint8_t {
    kHead,
    kBody,
    kDone,  ///< Sent whole, or never begun.
    kCut,   ///< Ended within its body. The connection has failed then.
  };
  /// What becomes of the connection after this exchange. Once it is not kPersists, no exchange follows.
  enum class Persistence : uint8_t {
    kPersists,
    kEnds,        ///< Ends with this exchange.
    kEndsUnread,  ///< The same, and all further input is ignored.
    kTunnel,      ///< The exchange has become a tunnel, and the connection ends with it.
  };
  /// Whether the peer may still send. It only moves down.
  enum class Peer : uint8_t {
    kSends,
    kEnded,
    kCut,   ///< Its end was not signaled.
    kLost,  ///< The connection has failed.
  };
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
  bool sent_all() const final { return out_over(); }
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
  /// The peer has broken a rule or exceeded a limit. Called before the error takes effect.
  virtual void report(const http1::Error& /*error*/) {}

  enum class Scan : uint8_t {
    kMore,
    kComplete,
    kTooLarge,  ///< A trailer section over a limit, which is dropped.
    kFailed,
  };
  /// Looks for the end of a head. Handles errors, and the end of the peer's output.
  Scan scan_head(const http1::HeadScan::Limits& limits);
  /// Calls `read(std::string_view head, size_t fields)` with the complete head, and removes it from the input unless
  /// that fails.
  template <typename Read>
  http1::Error take_head(Read&& read) {
    const size_t bytes = scan_.bytes(), fields = scan_.lines();
    scan_.reset();
    Lease whole;
    const http1::Error error = read(contiguous_input(bytes, whole), fields);
    if (!error) input_.trim_front(bytes);  // Otherwise it is reported with its first line.
    return error;
  }
  void begin_exchange(StreamReceiver& receiver, Persistence persistence);
  bool in_exchange() const { return exchange_ != Exchange::kNone; }
  bool out_over() const { return out_ >= Out::kDone; }
  /// Whether both directions are over. The receiver gets no further calls then.
  bool ended() const { return in_ == In::kDone && out_over(); }
  bool peer_ended() const { return peer_ != Peer::kSends; }
  bool persists() const { return persistence_ == Persistence::kPersists; }

  // The transitions of the message being received.
  void begin_input(In to) {
    SLUICE_DCHECK(in_ == In::kHead && in_exchange() && to != In::kHead);
    in_ = to;
  }
  void end_input() {
    SLUICE_DCHECK(in_ == In::kBody || in_ == In::kTrailers || in_ == In::kHeld);
    in_ = In::kDone;
  }
  // The transitions of the message being sent.
  void begin_output_body() {
    SLUICE_DCHECK(out_ == Out::kHead && in_exchange());
    out_ = Out::kBody;
  }
  void end_output();
  /// Ends both directions of the exchange, if there is one, wherever they are.
  void abandon();
  /// Drops a request of a client of which nothing was sent.
  void take_back();
  // The transitions of the connection.
  void end_connection() {
    SLUICE_DCHECK(status_ == Status::kOpen && !in_exchange());
    status_ = Status::kEnded;
  }
  void fail_connection(const char* what) {
    SLUICE_DCHECK(status_ == Status::kOpen);
    status_ = Status::kFailed;
    error_ = what;
  }
  /// Lets the connection end with this exchange.
  void end_after_exchange() {
    if (persists()) persistence_ = Persistence::kEnds;
  }
  /// Ends the exchange once both directions are over, and with the last exchange the connection. Must be called after
  /// anything that may have ended a direction.
  void settle_exchange();
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
  uint32_t drop_left_ = 0;  // Bytes that may still be dropped in Exchange::kReleased.
  Status status_ = Status::kOpen;
  In in_ = In::kHead;
  Out out_ = Out::kHead;
  http1::Framing out_framing_ = http1::Framing::kNone;
  ResetReason owed_reason_ = ResetReason::kInternal;
  uint8_t head_kib_ = 0;  // Memory that this exchange's request holds: one chunk at most.
  uint8_t informational_ : 7 = 0;
  bool head_allowed_ : 1 = false;  // The next request may be read: it is not pipelined, or its wait is over.
  const bool server_ : 1;
  Exchange exchange_ : 2 = Exchange::kNone;
  Persistence persistence_ : 2 = Persistence::kPersists;
  Peer peer_ : 2 = Peer::kSends;
  // The request of this exchange.
  http1::RequestKind kind_ : 2 = http1::RequestKind::kOther;
  bool version_1_0_ : 1 = false;
  bool expects_ : 1 = false;      // A 100 Continue is expected and was not sent yet.
  bool head_unsent_ : 1 = false;  // Of a client: not flushed yet, so no response is possible yet.
  // Facts beside the states, in any combination.
  bool reading_ : 1 = true;
  bool draining_ : 1 = false;
  bool running_ : 1 = false;       // Receivers are being called.
  bool reset_owed_ : 1 = false;    // The receiver is still to learn of owed_reason_. Both directions are over.
  bool body_queued_ : 1 = false;   // Body was queued since the last flush.
  bool full_ : 1 = false;          // Reading is paused because too many pipelined bytes wait.
  bool input_waits_ : 1 = false;   // The next request is pipelined and waits for another turn of the loop.
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
