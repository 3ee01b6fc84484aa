#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "buffer/buffer.h"
#include "pool/chunk_pool.h"
#include "proxy/http/h2/frame.h"
#include "proxy/http/h2/http2_codec.h"
#include "proxy/http/h2/limits.h"

namespace sluice {

/// One connection to a HandshakerService, without a socket: calls of DoHandshake by gRPC over HTTP/2. A call is a
/// stream of requests, and of as many responses.
///
///     if (channel.has_room()) channel.open(caller, request);
///     channel.produce(to_send, limit);
///     ...
///     if (!channel.receive(std::move(received))) return give_up(channel.error());   // and hear what callers heard
class HandshakerChannel final : private Http2Codec::ErrorReader {
 public:
  class Stream;

  /// Who has made a call. Hears of it out of receive(), produce() and fail(), and does not call the channel then.
  class Caller {
   public:
    virtual void on_response(std::string&& response) = 0;
    /// The call is over. `untouched`: the service says that it has not looked at it, so it may be made again.
    virtual void on_end(std::string error, bool untouched) = 0;

    Stream* stream = nullptr;  ///< The channel's: null while no call is under way.

   protected:
    Caller() = default;
    ~Caller() = default;
  };

  /// `address` is what the service is asked for, and called in errors.
  HandshakerChannel(ChunkPool& pool, std::string_view address);
  /// Precondition: no call is left.
  ~HandshakerChannel();
  HandshakerChannel(const HandshakerChannel&) = delete;
  HandshakerChannel& operator=(const HandshakerChannel&) = delete;

  // ---- Calls

  /// Whether the service has said what it bears. No call may be opened before.
  bool ready() const { return codec_.greeted(); }
  /// Whether the service takes no more calls here, or the numbers of streams are used up. Calls that there are go on.
  bool leaving() const { return codec_.draining() || opened_ == kMaxOpened; }
  /// Whether there is room for a call. One that is done holds its place until the service ends it too.
  bool has_room() const;
  /// Calls that are not over.
  size_t calls() const { return calls_; }
  /// Whether there are calls that are done and not ended by the service.
  bool has_done() const { return streams_.size() > calls_; }
  /// Resets those, for they hold places.
  void reset_done();

  /// Precondition: ready(), !leaving(), has_room().
  void open(Caller& caller, std::string_view request);
  /// Another request. Precondition: the call was opened, is not over, and the response to the last one was heard.
  void send(Caller& caller, std::string_view request);
  /// Ends a call; nothing is heard of it any more. `done`: there is no more to ask; otherwise it is cancelled.
  void close(Caller& caller, bool done);

  // ---- The wire

  /// The time, by which it is judged how often the service says what nobody has asked for.
  void set_now(uint64_t now_ms) { codec_.set_now(now_ms); }
  /// Takes what was received. False when nothing more can come of this connection: calls have ended with error().
  bool receive(Buffer&& data);
  /// Appends what is to be sent, until `out` has about `limit` bytes. False as above.
  bool produce(Buffer& out, size_t limit);
  /// Gives back the memory that is not needed while no call is under way.
  void park() { codec_.park(); }
  /// Ends all calls with `error`.
  void fail(const std::string& error);
  const std::string& error() const { return error_; }
  /// Why the service ends the connection, as far as it has said so; empty if it has not.
  const std::string& farewell() const { return farewell_; }

  /// Calls at a time that there is room for here, whatever the service bears.
  static constexpr size_t kMaxStreams = 200;
  /// Of a response. Handshake messages have less than one KiB.
  static constexpr size_t kMaxMessageBytes = size_t{128} * 1024;
  /// Of the headers of a call's response, and of its trailers.
  static constexpr size_t kMaxHeaderBytes = size_t{16} * 1024;

 private:
  // A client has every second number.
  static constexpr uint32_t kMaxOpened = kHttp2MaxStream / 2;

  // Http2Codec::ErrorReader
  void on_goaway(Http2Error error, std::string_view text) override;
  void on_stream_reset(Http2Error error) override { reset_error_ = error; }

  Head request_head() const;
  bool goes_on();
  void erase(Stream& stream);

  const std::string name_;  // In errors.
  const std::string authority_;
  Http2Limits limits_;
  Http2Counters counters_;
  const Http2Codec::Shared shared_;
  Http2Codec codec_;
  std::vector<std::unique_ptr<Stream>> streams_;  // In no order.
  size_t calls_ = 0;
  uint32_t opened_ = 0;
  std::optional<Http2Error> reset_error_;  // Of the RST_STREAM that is being told.
  std::string farewell_;
  std::string error_;
};

}  // namespace sluice
