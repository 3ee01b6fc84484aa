#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "alts_like/record_state.h"
#include "proxy/http/h2/flood_limits.h"
#include "proxy/http/h2/frame.h"
#include "proxy/http/h2/header_block.h"
#include "proxy/http/h2/hpack_decoder.h"
#include "proxy/http/h2/hpack_encoder.h"
#include "proxy/http/h2/http2_stream.h"
#include "proxy/http/h2/idle_connection.h"
#include "proxy/http/h2/limits.h"
#include "proxy/http/h2/schedule.h"
#include "proxy/http/h2/stream_table.h"
#include "proxy/http/message/codec.h"
#include "sluice/buffer.h"
#include "sluice/chunk_pool.h"

namespace sluice {

/// Either side of an HTTP/2 connection (RFC 9113, 8441, 9218). Server push and the h2c upgrade are not supported.
///
///     const Http2Codec::Shared shared{pool, limits, counters};
///     Http2Codec connection(shared, &acceptor);   // A server; without an acceptor it is a client.
///     connection.set_now(now_ms);
///     connection.receive(std::move(received));
///     while (socket.queued() < kMark && connection.has_output()) { Buffer out; connection.flush(out); ... }
///
/// One flush() emits all pending control frames, and DATA up to Http2Limits::flush_bytes; more output may remain.
/// Receivers are called from receive(), receive_end() and flush(). Within such a call they may use any stream, but may
/// not call these three functions, park() or the destructor.
///
/// A server drains in two steps. drain() sends a GOAWAY that still admits all requests in flight, and a PING. A second
/// GOAWAY names the last stream when that PING is acknowledged, when drain() is called again, or when more requests
/// follow than can have been in flight (Http2Limits::streams). A client sends one GOAWAY.
class Http2Codec final : public HttpCodec, private Http2ConnectionState {
 public:
  /// Receives the errors that the peer reports, as the peer words them. It may only record them, because the codec is
  /// in the middle of its work.
  class ErrorReader {
   public:
    /// `text` is for people: any bytes, at most kMaxGoawayText of them.
    virtual void on_goaway(Http2Error error, std::string_view text) = 0;
    /// Called for a stream just before on_reset() of its receiver.
    virtual void on_stream_reset(Http2Error error) = 0;

   protected:
    ~ErrorReader() = default;
  };
  static constexpr size_t kMaxGoawayText = 128;

  /// Shared by the connections of one thread and one configuration. All members outlive the connections.
  struct Shared {
    ChunkPool& pool;
    const Http2Limits& limits;
    Http2Counters& counters;
    ErrorReader* error_reader = nullptr;  ///< Null: errors are not recorded.
    HeadBudget* head_budget = nullptr;    ///< Null: only the bound per connection holds.
    /// Set while the process is short of memory: the connection's receive window is then reduced to the protocol's
    /// initial one. Null: never.
    const bool* scarce = nullptr;
  };

  explicit Http2Codec(const Shared& shared, Acceptor* acceptor = nullptr);
  /// Continues a connection that write_state() has written, in the same role. Null if the state is malformed, or if the
  /// limits now allow less than was announced to the peer. Its streams have no receivers: call take_streams().
  static std::unique_ptr<Http2Codec> resume(const Shared& shared, Acceptor* acceptor, StateReader& in);
  /// Continues a server's connection that pack() has returned. Precondition: `idle` holds one; `shared` is the same.
  Http2Codec(const Shared& shared, Acceptor* acceptor, const IdleHttp2Connection& idle);
  /// Of a server: whether pack() may be called. It has no stream, and neither input nor output waits.
  bool can_pack() const;
  /// All that a connection needs while it is idle. The codec must not be used afterwards. Precondition: can_pack().
  IdleHttp2Connection pack();
  /// The streams of a connection that continues, in the order of receivers() before. Each must get a receiver by
  /// HttpStream::hand_over() before any other call, and reads once HttpStream::set_reading() is called.
  std::vector<HttpStream*> take_streams() const;
  /// Serializes the state. The codec must not be used afterwards. Preconditions: can_move(), and no output.
  void write_state(StateWriter& out);
  std::vector<StreamReceiver*> receivers() const override;
  bool can_move() const override;
  /// Frees all streams, released or not, without notifying their receivers.
  ~Http2Codec();
  Http2Codec(const Http2Codec&) = delete;
  Http2Codec& operator=(const Http2Codec&) = delete;

  Status receive(Buffer&& bytes) override;
  Status receive_end(End how = End::kOrderly) override;
  Status status() const override;
  bool mid_head() const override { return block_stream_ != 0 || (!in_data_ && !partial_.empty() && !input_waits_); }
  bool has_output() const override {
    return !control_.empty() || first_pending_ || (send_window_ > 0 && !schedule_.empty());
  }
  bool wants_bytes() const override { return !input_waits_ && !holds_input_; }
  bool input_waits() const override { return input_waits_; }
  size_t held_bytes() const override {
    const int64_t unconsumed = int64_t{limits().connection_window_bytes} - receive_window_ - credit_;
    return head_bytes_ + partial_.size() + control_.size() + static_cast<size_t>(std::max<int64_t>(unconsumed, 0));
  }
  void shed(const char* why) override { fail_calm(why); }
  void flush(Buffer& out) override;
  HttpStream* open_stream(StreamReceiver& receiver) override;
  uint32_t streams() const override { return streams_; }
  void drain() override;
  std::string_view error() const override { return error_ ? error_ : ""; }
  void park() override;

  /// Of a server: whether new requests wait, unread. What follows them waits, too. receive() must follow to go on.
  void hold_requests(bool hold) {
    holds_requests_ = hold;
    holds_input_ = false;
  }
  bool holds_requests() const { return holds_requests_; }

  /// If never called, each rate limit allows one burst only, and no window grows.
  void set_now(uint64_t now_ms) override {
    abuse_.set_now(now_ms);
    now_ms_ = static_cast<uint32_t>(now_ms);
    if (greeted_ms_ == 0) greeted_ms_ = now_ms_;
  }

  /// Ends the connection with GOAWAY (ENHANCE_YOUR_CALM) for a reason that its owner has found. `error` is a string
  /// literal.
  void give_up(const char* error);

  /// Whether the peer's preface and SETTINGS have arrived. The owner limits the time until then.
  bool greeted() const { return greeted_; }
  /// Whether the peer has acknowledged our SETTINGS.
  bool settings_acknowledged() const { return acknowledged_; }
  /// Whether queued body waits only for the peer's windows. The owner limits the time that a peer may block us.
  bool waits_for_window() const;
  /// Of a client: whether the peer accepts CONNECT with :protocol (RFC 8441). A stream that sends one without this is
  /// refused.
  bool accepts_protocols() const { return peer_takes_protocols_; }
  /// Bytes of body queued in all streams.
  size_t queued() const override;
  /// Bytes of body sent, modulo 2^32.
  uint32_t body_bytes_sent() const { return body_bytes_sent_; }
  /// The peer's limit on concurrent streams.
  uint32_t peer_streams() const { return peer_streams_; }
  /// Whether we (drain()) or the peer (GOAWAY) accept no more streams on this connection.
  bool draining() const { return drain_ != Drain::kNo || peer_draining_; }

 private:
  friend class Http2Stream;
  enum class Drain : uint8_t { kNo, kAnnounced, kFinal };
  // The state of a stream id that has no stream, which determines how a frame for it is handled.
  enum class Closed : uint8_t { kIdle, kLetPass, kError };
  // Marks that receivers are being called: released streams are freed only afterwards.
  class Busy {
   public:
    explicit Busy(Http2Codec& connection) : connection_(connection) { ++connection_.busy_; }
    ~Busy() {
      if (--connection_.busy_ == 0) connection_.free_dead();
    }
    Busy(const Busy&) = delete;
    Busy& operator=(const Busy&) = delete;

   private:
    Http2Codec& connection_;
  };

  struct Resumed {};
  Http2Codec(const Shared& shared, Acceptor* acceptor, Resumed);

  // http2_state.cc
  bool is_mid_message(const Http2Stream& stream) const;
  std::vector<Http2Stream*> streams_in_order() const;
  bool read_state(StateReader& in);
  bool read_stream(StateReader& in);

  // http2_codec.cc: parsing of input.
  void greet();
  void queue_settings();
  size_t head_limit_bytes(bool resumed) const;
  bool take_preface();
  bool take_frame();
  void take_whole_frame(const Http2FrameHeader& header, Buffer&& payload);
  void take_stream_frame(const Http2FrameHeader& header, const Buffer& payload);
  void fail(Http2Error code, const char* error);
  BrokenMessage broken(const char* rule, uint32_t stream) const;
  void report_failure(const char* error);
  void report_refusal(uint32_t id, const Http2HeaderBlock& block, const char* rule, uint16_t status);
  void fail_calm(const char* error);  // Null: does nothing.
  void end_all(ResetReason reason);
  const Http2Limits& limits() const { return shared_.limits; }
  Http2Counters& counters() const { return shared_.counters; }
  bool is_server() const { return acceptor_ != nullptr; }
  bool failed() const { return status_ == Status::kFailed; }

  // http2_control.cc: frames that concern the whole connection.
  void take_settings(const Http2FrameHeader& header, const Buffer& payload);
  void change_send_windows(int64_t change);
  void give_scarce_credit();
  void take_ping(const Http2FrameHeader& header, const Buffer& payload);
  void take_goaway(const Http2FrameHeader& header, const Buffer& payload);
  void take_window_update(const Http2FrameHeader& header, const Buffer& payload);
  void take_priority_update(const Http2FrameHeader& header, const Buffer& payload);
  void send_goaway(uint32_t last, Http2Error code, std::string_view text = {});
  void send_last_goaway();
  void queue(Http2FrameHeader header, std::span<const std::byte> payload);
  void queue(Http2FrameType type, uint32_t stream, uint32_t value);
  void queued_frame();
  void reply();
  void frame_on_closed() { fail_calm(abuse_.frame_on_closed(counters())); }
  void glitch() { fail_calm(abuse_.glitch(limits(), counters())); }

  // http2_messages.cc: heads, bodies and trailers.
  void take_headers(const Http2FrameHeader& header, Buffer&& payload);
  void take_fragment(const Http2FrameHeader& header, const Buffer& fragment);
  Http2HeaderBlock::Kind block_kind(const Http2FrameHeader& header);
  void take_block();
  void take_request(uint32_t id, Http2HeaderBlock& block, bool end);
  void take_response(Http2Stream& stream, Http2HeaderBlock& block, bool end);
  void take_trailers(Http2Stream& stream, Http2HeaderBlock& block);
  void count_request();
  void refuse_large_request(uint32_t id, Http2HeaderBlock& block, bool end);
  void begin_data(const Http2FrameHeader& header);
  bool expect_data(Http2Stream& stream, uint32_t flow_bytes);
  bool take_data();
  void gather(Http2Stream& stream, Buffer&& body);
  void deliver_gathered();
  void deliver(Http2Stream& stream, Buffer&& body, bool end);
  void take_credit(Http2Stream& stream, uint32_t bytes);
  void grow_window(Http2Stream& stream);
  void take_connection_credit(uint32_t bytes);
  void take_reset(Http2Stream& stream, uint32_t error);

  // http2_streams.cc: the life cycle of streams.
  Http2Stream& make_stream(StreamReceiver* receiver);
  Closed closed_state(uint32_t id) const;
  void stream_error(Http2Stream& stream, Http2Error code, ResetReason reason, const char* rule = nullptr);
  void refuse(uint32_t id, Http2Error code);
  void reset_stream(Http2Stream& stream, Http2Error code);
  void close_if_ended(Http2Stream& stream);
  void close(Http2Stream& stream);
  void free_stream(Http2Stream& stream);
  void free_dead();
  void notify_later(Http2Stream& stream);
  void notify_receivers();
  void notify_reset(Http2Stream& stream, ResetReason reason);
  void reset(Http2Stream& stream, ResetReason reason);
  void release(Http2Stream& stream);
  void set_reading(Http2Stream& stream, bool reading);

  // http2_sender.cc
  void send_head(Http2Stream& stream, const Head& head, bool end);
  void refuse_head(Http2Stream& stream, ResetReason reason);
  void send_body(Http2Stream& stream, Buffer&& body, bool end);
  void send_trailers(Http2Stream& stream, const Fields& trailers);
  void schedule(Http2Stream& stream);
  void flush_data(Buffer& out);
  void send_end(Http2Stream& stream, Buffer& to);
  void sent_end(Http2Stream& stream);

  const Shared& shared_;
  Acceptor* acceptor_;
  Buffer partial_;  // Received but incomplete input.
  Buffer control_;  // Whole frames that precede any DATA, with all header blocks in encoding order.
  Http2StreamTable table_;
  Http2Schedule schedule_;
  Http2Stream* first_pending_ = nullptr;  // Streams with pending notifications.
  Http2Stream* dead_ = nullptr;           // Streams to be freed.
  HpackDecoder decoder_;
  HpackEncoder encoder_;
  Http2HeaderBlock block_;  // While CONTINUATIONs are expected.
  const char* error_ = nullptr;

  uint32_t streams_ = 0;                         // Streams that have not ended.
  uint32_t held_streams_ = 0;                    // Streams that have ended but are not released.
  uint32_t next_id_ = 1;                         // Of a client: the id of the next stream.
  uint32_t last_accepted_id_ = kHttp2MaxStream;  // From our GOAWAY.
  uint32_t peer_last_id_ = kHttp2MaxStream;      // From the peer's GOAWAY.
  uint32_t now_ms_ = 0;                          // Modulo 2^32.
  uint32_t window_growth_ = 0;                   // Of all streams together.
  uint32_t control_frames_ = 0;                  // In control_.
  size_t head_bytes_ = 0;                        // Held by the requests of open streams.
  uint32_t heads_taken_bytes_ = 0;               // Decoded in this receive().

  // The header block being read.
  uint32_t block_stream_ = 0;  // 0: none.
  uint8_t continuations_ = 0;
  bool block_end_ = false;
  bool block_refused_ = false;

  // The DATA frame being read.
  uint32_t data_stream_ = 0;
  uint32_t data_left_ = 0;     // Bytes of data to come.
  uint16_t padding_left_ = 0;  // Bytes of padding to come.
  bool data_end_ = false;
  bool in_data_ = false;

  // Tiny pieces of body that are delivered together.
  uint32_t gathered_stream_ = 0;  // 0: none.
  Buffer gathered_;

  // The frame being handled, for reports.
  uint32_t frame_stream_ = 0;
  Http2FrameType frame_type_ = Http2FrameType::kData;

  uint8_t preface_left_ = 0;
  uint8_t busy_ = 0;
  Status status_ = Status::kOpen;
  Drain drain_ = Drain::kNo;
  bool greeted_ : 1 = false;
  bool peer_draining_ : 1 = false;
  bool peer_ended_ : 1 = false;
  bool input_waits_ : 1 = false;
  bool holds_requests_ : 1 = false;
  bool holds_input_ : 1 = false;  // A new request waits.
  bool in_frame_ : 1 = false;     // frame_type_ and frame_stream_ are set.
};

}  // namespace sluice
