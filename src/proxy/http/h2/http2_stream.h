#pragma once

#include <cstddef>
#include <cstdint>

#include "proxy/http/h2/header_block.h"
#include "proxy/http/h2/priority.h"
#include "proxy/http/message/stream.h"
#include "sluice/buffer.h"

namespace sluice {

class Http2Codec;

/// A stream (RFC 9113 section 5.1) with its windows and its queued output. It lies in a chunk of the pool, so the
/// pool's free list is also the free list of streams. Its connection implements all the rules.
class Http2Stream final : public HttpStream {
 public:
  Http2Stream(Http2Codec& connection, StreamReceiver* receiver) : connection_(connection), receiver_(receiver) {}
  Http2Stream(const Http2Stream&) = delete;
  Http2Stream& operator=(const Http2Stream&) = delete;

  void send_head(const Head& head, bool end) override;
  void send_body(Buffer&& body, bool end) override;
  void send_trailers(const Fields& trailers) override;
  void reset(ResetReason reason) override;
  bool sent_all() const override { return closed() || sent_end_; }
  size_t queued() const override { return queue_.size(); }
  bool blocked() const override { return send_window_ <= 0; }
  void set_reading(bool reading) override;
  void hand_over(StreamReceiver& receiver) override { receiver_ = &receiver; }
  void release() override;

  uint32_t id() const { return id_; }  ///< 0: a client's stream that has not sent its head.
  Http2Priority priority() const { return priority_; }

 private:
  friend class Http2Codec;
  friend class Http2Schedule;
  friend class Http2StreamTable;

  // Whether no more frames may be sent or are expected.
  bool closed() const { return reset_ || (sent_end_ && received_end_); }

  Http2Codec& connection_;
  StreamReceiver* receiver_;  // Null once released.
  Chunk* chunk_ = nullptr;    // The chunk that holds this stream.

  Http2Stream* next_in_table_ = nullptr;
  Http2Stream* next_ready_ = nullptr;  // Links of the schedule's ring.
  Http2Stream* previous_ready_ = nullptr;
  Http2Stream* next_pending_ = nullptr;  // Link of the list of pending notifications, or of streams to be freed.

  uint64_t content_left_ = Http2HeaderBlock::kNoLength;  // Bytes left of the announced Content-Length.
  Buffer queue_;                                         // Body to be sent.
  Fields trailers_;                                      // Sent after the body.
  int32_t send_window_ = 0;                              // Negative if the peer shrank it below the bytes in flight.
  int32_t receive_window_ = 0;
  uint32_t credit_ = 0;         // Bytes consumed but not yet credited to the peer.
  uint32_t withheld_ = 0;       // Bytes delivered to a receiver that has paused reading.
  uint32_t window_growth_ = 0;  // How much larger its receive window is than at first.
  uint32_t credited_ms_ = 0;    // When the peer last got credit, modulo 2^32; at first when the stream began.
  uint32_t id_ = 0;
  uint32_t head_bytes_ = 0;  // Memory that its request holds.
  Http2Priority priority_;
  uint8_t informational_ = 0;  // 1xx heads received.
  ResetReason pending_reason_ = ResetReason::kCancelled;

  bool sent_head_ : 1 = false;
  bool queued_end_ : 1 = false;       // Our message is complete, though perhaps unsent.
  bool queued_trailers_ : 1 = false;  // trailers_ follow queue_.
  bool sent_end_ : 1 = false;
  bool received_head_ : 1 = false;
  bool received_end_ : 1 = false;
  bool reset_ : 1 = false;  // By either side.
  bool reset_by_peer_ : 1 = false;
  bool reading_ : 1 = true;
  bool no_content_ : 1 = false;    // The received message has no content, whatever its Content-Length.
  bool head_request_ : 1 = false;  // Of a client: a HEAD request, whose response has no content.
  bool connect_ : 1 = false;
  bool tunnel_ : 1 = false;  // An extended CONNECT.
  bool ready_ : 1 = false;   // In the schedule.
  bool in_pending_list_ : 1 = false;
  bool notify_drained_ : 1 = false;
  bool notify_reset_ : 1 = false;
  bool counted_ : 1 = true;   // Counted as not ended.
  bool retired_ : 1 = false;  // Released and closed; waits to be freed.
};

}  // namespace sluice
