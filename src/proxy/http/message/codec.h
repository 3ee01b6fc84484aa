#pragma once

#include <cstdint>
#include <string_view>

#include "buffer/buffer.h"
#include "proxy/http/message/stream.h"

namespace sluice {

/// One side of a connection that speaks a version of HTTP, without a socket: it is given what was received, and asked
/// for what is to be sent. Between calls it holds the beginning of what is not complete yet, and what its streams
/// queue; chunks come from the pool that it was made with, beyond whose budget heads and frame headers go if need be.
///
///     connection.receive(std::move(received));
///     while (connection.has_output() && socket.queued() < kMark) {
///       Buffer out;
///       connection.flush(out);
///       socket.send(std::move(out));
///     }
///     if (connection.status() != HttpCodec::Status::kOpen && !connection.has_output()) socket.shutdown_write();
///
/// Receivers are called out of receive(), receive_end() and flush(), never out of the calls to a stream. So behind such
/// calls from elsewhere, receive() is called once more, if only with nothing: what was held back is told then.
class HttpCodec {
 public:
  enum class Status : uint8_t {
    kOpen,
    kEnded,   ///< No stream can follow and none is left: what is to be sent, and then it closes.
    kFailed,  ///< See error(). Its streams were reset; what is to be sent (a GOAWAY, a 400), and then it closes.
  };

  /// A server is told of each new request here: what it returns is the stream's receiver from on_head on.
  class Acceptor {
   public:
    virtual StreamReceiver& on_stream(HttpStream& stream) = 0;
    /// Whether a new request may be taken, which holds `bytes`, where the connection holds `held_bytes` already. If
    /// not, the codec refuses it, and on_stream is not called.
    virtual bool admits(size_t /*held_bytes*/, size_t /*bytes*/) { return true; }

   protected:
    ~Acceptor() = default;
  };

  virtual ~HttpCodec() = default;

  virtual Status receive(Buffer&& bytes) = 0;
  /// How it is known that the peer sends nothing more.
  enum class End : uint8_t {
    kSaid,  ///< By itself.
    kCut,   ///< It did not say so where it should have, in TLS: what only the end would complete is not complete.
    kLost,  ///< The connection has failed: nothing can be sent either.
  };
  /// The peer sends nothing more.
  virtual Status receive_end(End how = End::kSaid) = 0;
  /// The time by which rates are judged, from any fixed point on.
  virtual void set_now(uint64_t) {}
  /// As receive() would return it: it may also change in flush(), and with what is sent on a stream.
  virtual Status status() const = 0;
  /// Whether the socket is to be read now. What is given nevertheless is kept.
  virtual bool wants_bytes() const { return true; }
  /// Whether receive() stopped before the end of its input, as it had enough work for one turn of the loop. Another
  /// receive(), in the next turn, goes on.
  virtual bool input_waits() const { return false; }
  /// Memory that the peer makes this connection hold: heads of open streams, input that is not complete or that nobody
  /// took, frames that wait to be sent. Not what streams queue towards the peer: each stream's receiver bounds that.
  virtual size_t held_bytes() const = 0;
  /// Bookkeeping of a stream, on both sides of the proxy, as held_bytes() counts it.
  static constexpr size_t kStreamBytes = 1024;
  /// Ends the connection, because it holds more memory than its share. `why`: a literal.
  virtual void shed(const char* why) = 0;
  /// Whether a head has begun to come and is not complete, for which a peer should have only so much time.
  virtual bool mid_head() const = 0;
  virtual bool has_output() const = 0;
  /// Whether nothing more will be sent while the peer may still send: our half of a tunnel is over. Once all is flushed
  /// the socket's writing side is to be shut down.
  virtual bool output_ended() const { return false; }
  /// Whether what was sent ends within a message, which must not look whole where the connection's end is the
  /// message's.
  virtual bool output_cut() const { return false; }
  /// Whether the framing of a message that was cut shows that it is not complete, so that the connection may end in
  /// order behind it.
  virtual bool cut_shows() const { return true; }
  /// Appends what is to be sent, or the first of it where it is much. Bodies are passed on as they are; heads and frame
  /// headers are written to small chunks.
  virtual void flush(Buffer& out) = 0;

  /// A client's new stream, or null while there can be none (the peer's limit, a request under way in HTTP/1.1, a
  /// connection that drains).
  virtual HttpStream* open_stream(StreamReceiver& receiver) = 0;
  virtual uint32_t streams() const = 0;  ///< That have not ended.

  /// Lets streams end and takes no more: GOAWAY in two steps, or Connection: close.
  virtual void drain() = 0;
  virtual std::string_view error() const = 0;
  /// Settles what has arrived, and gives back all that can be made again: for a connection that waits.
  virtual void park() = 0;
};

}  // namespace sluice
