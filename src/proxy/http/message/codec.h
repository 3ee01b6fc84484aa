#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "proxy/http/message/stream.h"
#include "sluice/buffer.h"

namespace sluice {

/// One side of a connection that speaks a version of HTTP, without a socket. The owner passes in received bytes and
/// takes out the bytes to send. Between calls the codec holds incomplete input and the queued output of its streams.
/// Chunks come from the pool that it was made with; heads and frame headers go beyond the pool's budget if need be.
///
///     connection.receive(std::move(received));
///     while (connection.has_output() && socket.queued() < kMark) {
///       Buffer out;
///       connection.flush(out);
///       socket.send(std::move(out));
///     }
///     if (connection.status() != HttpCodec::Status::kOpen && !connection.has_output()) socket.shutdown_write();
///
/// Receivers are called from receive(), receive_end() and flush(), never from calls to a stream. Code that calls a
/// stream from elsewhere must therefore call receive() once afterwards, if only with an empty buffer: it delivers the
/// notifications that were held back.
class HttpCodec {
 public:
  /// Bounds the requests that the connections of one worker read together in one turn of its loop, in bytes of decoded
  /// heads: the other connections of the loop wait meanwhile.
  struct HeadBudget {
    static constexpr size_t kTurnBytes = size_t{1} << 20;  ///< 2 ms of decoding and routing.
    size_t left_bytes = kTurnBytes;                        ///< The worker sets it to kTurnBytes in each turn.

    /// Whether something is left. If so, takes `bytes`, or what is left of them.
    bool take(size_t bytes) {
      const bool any = left_bytes > 0;
      left_bytes -= bytes < left_bytes ? bytes : left_bytes;
      return any;
    }
  };

  enum class Status : uint8_t {
    kOpen,
    kEnded,   ///< No stream is left and none can follow. Send the remaining output, then close.
    kFailed,  ///< See error(). All streams were reset. Send the remaining output (a GOAWAY, a 400), then close.
  };

  /// Notifies a server of each new request. The receiver that on_stream() returns gets all events of the stream, from
  /// on_head on.
  class Acceptor {
   public:
    virtual StreamReceiver& on_stream(HttpStream& stream) = 0;
    /// Whether a new request that holds `bytes` may be accepted while the connection already holds `held_bytes`. If
    /// not, the codec refuses the request and does not call on_stream.
    virtual bool admits(size_t /*held_bytes*/, size_t /*bytes*/) { return true; }
    /// The codec refuses a request for which it did not call on_stream. An HTTP/2 connection stays open.
    virtual void on_refused(const BrokenMessage& /*message*/) {}
    /// An HTTP/2 connection ends because the client has broken a rule, or is over a limit.
    virtual void on_failed(const BrokenMessage& /*message*/) {}
    /// Whether an HTTP/1.1 connection may read another pipelined request in this turn of the loop.
    virtual bool may_read_pipelined() { return true; }

   protected:
    ~Acceptor() = default;
  };

  virtual ~HttpCodec() = default;

  virtual Status receive(Buffer&& bytes) = 0;
  /// How the end of the peer's output became known.
  enum class End : uint8_t {
    kOrderly,  ///< The peer signaled it.
    kCut,      ///< TLS ended without a close signal. A message that ends only with the connection is incomplete.
    kLost,     ///< The connection has failed: nothing can be sent either.
  };
  /// The peer sends nothing more.
  virtual Status receive_end(End how = End::kOrderly) = 0;
  /// Sets the current time for rate limits, in milliseconds from any fixed point.
  virtual void set_now(uint64_t) {}
  /// The same value that receive() returns. It may also change in flush() and in calls to a stream.
  virtual Status status() const = 0;
  /// Whether the socket should be read now. Bytes that are passed in anyway are kept.
  virtual bool wants_bytes() const { return true; }
  /// Whether receive() stopped before the end of its input because it had done enough work for one turn of the loop.
  /// Another receive() in the next turn continues.
  virtual bool input_waits() const { return false; }
  /// Memory that the peer makes this connection hold: heads of open streams, input that is incomplete or not consumed
  /// by a receiver, and frames that wait to be sent. It excludes what streams queue toward the peer: each stream's
  /// receiver bounds that.
  virtual size_t held_bytes() const = 0;
  /// Why a request is refused that Acceptor::admits does not admit.
  static constexpr const char* kOverMemory = "the connection holds more than its share of memory, which is short";
  /// The bookkeeping of one stream on both sides of the proxy, as held_bytes() counts it.
  static constexpr size_t kStreamBytes = 1024;
  /// Ends the connection because it holds more memory than its share. `why` is a string literal.
  virtual void shed(const char* why) = 0;
  /// Whether an incomplete head has arrived. The owner limits the time until it is complete.
  virtual bool mid_head() const = 0;
  virtual bool has_output() const = 0;
  /// Whether our half of a tunnel is over: nothing more will be sent, while the peer may still send. Once all output is
  /// flushed, the owner shuts down the socket's writing side.
  virtual bool output_ended() const { return false; }
  /// The receivers of the open streams. It allocates, so it is for rare events only.
  virtual std::vector<StreamReceiver*> receivers() const = 0;
  /// Whether nothing is in progress but messages that another process can continue: in HTTP/2, streams whose response
  /// has begun and not ended; in HTTP/1.1, a tunnel that is open in both directions. The connection can continue there
  /// once all output is flushed.
  virtual bool can_move() const = 0;
  /// Whether it holds bytes of a tunnel, which do not move with it.
  virtual bool holds_tunneled_bytes() const { return false; }
  /// Whether the output ends within a message. Where the end of the connection is the end of the message, the owner
  /// must not let the message look complete.
  virtual bool output_cut() const { return false; }
  /// Whether the framing of a message that was cut short reveals that it is incomplete, so that the connection may be
  /// closed in the normal way.
  virtual bool cut_shows() const { return true; }
  /// Appends the bytes to send, or the first part of them if there are many. Bodies are passed on without copying;
  /// heads and frame headers are written to small chunks.
  virtual void flush(Buffer& out) = 0;

  /// Opens a new stream of a client. Returns null while that is impossible: at the peer's limit, during an exchange in
  /// HTTP/1.1, or on a draining connection.
  virtual HttpStream* open_stream(StreamReceiver& receiver) = 0;
  virtual uint32_t streams() const = 0;  ///< Streams that have not ended.
  virtual size_t queued() const = 0;     ///< Bytes of body queued in all streams.

  /// Lets current streams end and accepts no more: GOAWAY in two steps, or Connection: close.
  virtual void drain() = 0;
  virtual std::string_view error() const = 0;
  /// Compacts what has arrived and frees all state that can be rebuilt. For an idle connection.
  virtual void park() = 0;
};

}  // namespace sluice
