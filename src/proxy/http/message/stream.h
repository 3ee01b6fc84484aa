#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "proxy/http/message/fields.h"
#include "proxy/http/message/head.h"
#include "sluice/buffer.h"

namespace sluice {

/// Why a stream ended early.
enum class ResetReason : uint8_t {
  kCancelled,       ///< The response is not needed any more.
  kRefused,         ///< The peer has not processed the request, so it is safe to retry.
  kMalformed,       ///< The message breaks a rule of HTTP.
  kTooLarge,        ///< A head is too large, or a body that has a limit.
  kTimeout,         ///< Set by the caller; a codec never detects it.
  kOverload,        ///< HTTP/2's ENHANCE_YOUR_CALM.
  kInternal,        ///< Any other reason that the peer gave.
  kConnectionLost,  ///< The connection was lost.
  kRejected,        ///< The peer found a rule violation in our message: HTTP/2's PROTOCOL_ERROR, HTTP_1_1_REQUIRED.
  kUnsendable,      ///< The caller's message cannot be written, or is longer or shorter than it announced.
};
inline constexpr int kResetReasonCount = 10;

class HttpStream;
class MovableStream;

/// A message of a client that breaks a rule of HTTP or is over a limit, and what is known of it. The views are valid
/// during the call that passes it. What the client sent may hold any bytes.
struct BrokenMessage {
  const char* rule;     ///< A string literal.
  uint16_t status = 0;  ///< Of the response that follows; 0: none.
  bool first = false;   ///< HTTP/1.1: no request was read on the connection before.
  std::string_view line =
      {};  ///< HTTP/1.1: the beginning of the request, up to the end of the line; cut if it is long.
  std::string_view method = {}, scheme = {}, authority = {}, path = {};  ///< Of the request, as far as they are known.
  uint32_t stream = 0;                                                   ///< HTTP/2; 0: the connection.
  std::string_view frame = {};  ///< HTTP/2: the type of the frame that breaks the rule; empty: there is none.

  void add(const Head& request) {
    method = request.method();
    scheme = request.scheme();
    authority = request.authority();
    path = request.path();
  }
};

/// Receives the events of a stream: of a request that a server reads, or of a response that a client reads. The order
/// is on_head (on a client perhaps after several 1xx heads), on_body any number of times, and perhaps on_trailers.
/// `end` means that nothing follows. on_reset may come at any time in place of the remaining events, once, and nothing
/// follows it. While the other direction is open, it may also come after the end.
class StreamReceiver {
 public:
  virtual void on_head(HttpStream& stream, Head&& head, bool end) = 0;
  /// `body` may be empty if `end` is set.
  virtual void on_body(HttpStream& stream, Buffer&& body, bool end) = 0;
  virtual void on_trailers(HttpStream& stream, Fields&& trailers) = 0;
  virtual void on_reset(HttpStream& stream, ResetReason reason) = 0;
  /// The request breaks a rule behind its head. Only of a server; on_reset() follows.
  virtual void on_broken(HttpStream& /*stream*/, const BrokenMessage& /*message*/) {}
  /// queued() has decreased.
  virtual void on_drained(HttpStream& stream) = 0;

  /// The names of an upstream and an endpoint; empty if there is none.
  struct Destination {
    std::string_view upstream, endpoint;
  };
  /// Where what it receives goes to at present, or comes from. Valid in this turn of the loop.
  virtual Destination destination() const { return {}; }
  /// The receiver as a tunnel, which can move to another process; null if it is none.
  virtual MovableStream* movable_stream() { return nullptr; }

 protected:
  ~StreamReceiver() = default;
};

/// One exchange on a connection: a request in one direction and its response in the other. The connection owns it, and
/// returns it to its free list once both directions have ended and the receiver has released it.
class HttpStream {
 public:
  /// These functions send a head, a body and trailers. Data that cannot go out at once (flow control, or an earlier
  /// response in HTTP/1.1) is queued in the stream. `end` means that nothing follows. A server may send 1xx heads
  /// before the final one. Preconditions: calls in this order, and none after `end`, send_trailers or a reset.
  virtual void send_head(const Head& head, bool end) = 0;
  virtual void send_body(Buffer&& body, bool end) = 0;
  virtual void send_trailers(const Fields& trailers) = 0;
  /// Ends both directions at once, without a call to on_reset.
  virtual void reset(ResetReason reason) = 0;

  /// Whether the end of our message has left the stream, so that release() loses nothing.
  virtual bool sent_all() const = 0;
  /// Bytes of body queued in the stream.
  virtual size_t queued() const = 0;
  /// Whether the peer's flow control blocks this stream in particular, whatever other streams of the connection may
  /// send.
  virtual bool blocked() const { return false; }
  /// Sets whether the receiver can take more body; initially it can. While it cannot, the peer gets no credit beyond
  /// what it already has.
  virtual void set_reading(bool reading) = 0;
  /// Directs all later events to `receiver`. May be called within a call to the old receiver.
  virtual void hand_over(StreamReceiver& receiver) = 0;
  /// Detaches the receiver: it gets no further calls. Resets the stream if it has not ended.
  virtual void release() = 0;

 protected:
  ~HttpStream() = default;
};

}  // namespace sluice
