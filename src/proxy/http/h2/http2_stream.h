#pragma once

#include <cstddef>
#include <cstdint>

#include "buffer/buffer.h"
#include "proxy/http/h2/header_block.h"
#include "proxy/http/h2/priority.h"
#include "proxy/http/message/stream.h"

namespace sluice {

class Http2Codec;

/// A stream (RFC 9113 section 5.1) with its windows and what waits to be sent. It lies in a chunk of the pool: the
/// pool's free list is the free list of streams. All rules are its connection's.
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

  uint32_t id() const { return id_; }  ///< 0: a client's that has not sent its head.
  Http2Priority priority() const { return priority_; }

 private:
  friend class Http2Codec;
  friend class Http2Schedule;
  friend class Http2StreamTable;

  // No frame is to be sent or expected any more.
  bool closed() const { return reset_ || (sent_end_ && received_end_); }

  Http2Codec& connection_;
  StreamReceiver* receiver_;  // Null once released.
  Chunk* chunk_ = nullptr;    // That it lies in.

  Http2Stream* next_in_table_ = nullptr;
  Http2Stream* next_ready_ = nullptr;  // In the schedule, a ring.
  Http2Stream* previous_ready_ = nullptr;
  Http2Stream* next_told_ = nullptr;  // Among those whose receiver is to be told something, or that are to be freed.

  uint64_t content_left_ = Http2HeaderBlock::kNoLength;  // Of what Content-Length promised.
  Buffer queue_;                                         // Body to be sent,
  Fields trailers_;                                      // and what comes behind it.
  int32_t send_window_ = 0;  // Below 0 when the peer made it smaller than what is under way.
  int32_t receive_window_ = 0;
  uint32_t credit_ = 0;    // Bytes that were taken, for which the peer has no new credit yet.
  uint32_t withheld_ = 0;  // Bytes that are with a receiver that does not read on.
  uint32_t id_ = 0;
  uint32_t head_bytes_ = 0;  // That its request holds.
  Http2Priority priority_;
  uint8_t informational_ = 0;  // Heads with a status of 1xx.
  ResetReason told_reason_ = ResetReason::kCancelled;

  bool sent_head_ : 1 = false;
  bool queued_end_ : 1 = false;       // Our side is complete, though perhaps not sent;
  bool queued_trailers_ : 1 = false;  // with trailers_.
  bool sent_end_ : 1 = false;
  bool received_head_ : 1 = false;
  bool received_end_ : 1 = false;
  bool reset_ : 1 = false;  // By either side;
  bool reset_by_peer_ : 1 = false;
  bool reading_ : 1 = true;
  bool no_content_ : 1 = false;    // The message that we receive has none, whatever its Content-Length says.
  bool head_request_ : 1 = false;  // Of a client: the response to it has no content.
  bool connect_ : 1 = false;
  bool tunnel_ : 1 = false;   // An extended CONNECT.
  bool ready_ : 1 = false;    // In the schedule.
  bool to_tell_ : 1 = false;  // In the list of next_told_.
  bool tell_drained_ : 1 = false;
  bool tell_reset_ : 1 = false;
  bool counted_ : 1 = true;   // Among those that have not ended.
  bool retired_ : 1 = false;  // Released and closed; only to be freed.
};

}  // namespace sluice
