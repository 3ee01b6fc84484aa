#pragma once

#include <cstddef>
#include <cstdint>

#include "buffer/buffer.h"
#include "proxy/http/message/fields.h"
#include "proxy/http/message/head.h"

namespace sluice {

/// Why a stream ends before its time.
enum class ResetReason : uint8_t {
  kCancelled,       ///< Nobody wants the answer any more.
  kRefused,         ///< The peer has not looked at it: it may be sent again.
  kMalformed,       ///< The message breaks a rule of HTTP.
  kTooLarge,        ///< A head, or a body where it is bounded.
  kTimeout,         ///< Not what a codec finds out by itself.
  kOverload,        ///< HTTP/2's ENHANCE_YOUR_CALM.
  kInternal,        ///< Any other that the peer told.
  kConnectionLost,  ///< With the connection.
  kRejected,        ///< The peer says that what it received breaks a rule: HTTP/2's PROTOCOL_ERROR, HTTP_1_1_REQUIRED.
  kUnsendable,      ///< What the caller wanted to send cannot be written, or is more or less than it announced.
};
inline constexpr int kResetReasonCount = 10;

class HttpStream;

/// What comes in on a stream is told here; the same for a request that a server reads, and for a response that a client
/// reads. The order: on_head (a client: perhaps several with a status of 1xx first), on_body any number of times,
/// perhaps on_trailers. `end` says that nothing follows. Instead of what is missing on_reset may come at any time,
/// once, and then nothing more; behind the end too, as long as the other direction is open.
class StreamReceiver {
 public:
  virtual void on_head(HttpStream& stream, Head&& head, bool end) = 0;
  /// `body` may be empty where `end` is set.
  virtual void on_body(HttpStream& stream, Buffer&& body, bool end) = 0;
  virtual void on_trailers(HttpStream& stream, Fields&& trailers) = 0;
  virtual void on_reset(HttpStream& stream, ResetReason reason) = 0;
  /// queued() has fallen.
  virtual void on_drained(HttpStream& stream) = 0;

 protected:
  ~StreamReceiver() = default;
};

/// One exchange on a connection: a request one way, its response the other way. Belongs to its connection, which gives
/// it back to its free list when both directions have ended and the receiver has released it.
class HttpStream {
 public:
  /// Sends; what cannot go at once (flow control, or an earlier response of HTTP/1.1) waits in the stream. `end`:
  /// nothing follows. A server may send heads with a status of 1xx before the last one. Preconditions: in this order,
  /// and nothing after `end`, send_trailers or a reset.
  virtual void send_head(const Head& head, bool end) = 0;
  virtual void send_body(Buffer&& body, bool end) = 0;
  virtual void send_trailers(const Fields& trailers) = 0;
  /// Ends both directions at once. on_reset is not called for it.
  virtual void reset(ResetReason reason) = 0;

  /// Whether the end of what is sent has left the stream, so that release() loses nothing.
  virtual bool sent_all() const = 0;
  /// Bytes of body that wait here.
  virtual size_t queued() const = 0;
  /// Whether it is the peer that gives this stream no leave to send, whatever others of the connection may.
  virtual bool blocked() const { return false; }
  /// Whether the receiver can take more body now: while not, the peer is given no credit beyond what it has. At the
  /// start it can.
  virtual void set_reading(bool reading) = 0;
  /// From now on `receiver` is told instead. Good within a call to the old one, too.
  virtual void hand_over(StreamReceiver& receiver) = 0;
  /// The receiver lets go: nothing is told to it any more, and the stream is reset if it has not ended.
  virtual void release() = 0;

 protected:
  ~HttpStream() = default;
};

}  // namespace sluice
