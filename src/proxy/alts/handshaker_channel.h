#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "proxy/http/h2/frame.h"
#include "proxy/http/h2/http2_codec.h"
#include "proxy/http/h2/limits.h"
#include "sluice/buffer.h"
#include "sluice/chunk_pool.h"

namespace sluice {

/// One connection to a HandshakerService, without a socket: calls of DoHandshake by gRPC over HTTP/2. A call is a
/// stream of requests with one response each.
///
///     if (channel.has_room()) channel.open(caller, request);
///     channel.produce(to_send, limit);
///     ...
///     if (!channel.receive(std::move(received))) return give_up(channel.error());   // callers were notified
class HandshakerChannel final : private Http2Codec::ErrorReader {
 public:
  class Stream;

  /// The owner of a call. Its methods are called from receive(), produce() and fail(), and must not call the channel.
  class Caller {
   public:
    virtual void on_response(std::string&& response) = 0;
    /// The call has ended. `untouched`: the service has not processed it, so it may be retried.
    virtual void on_end(std::string error, bool untouched) = 0;

    Stream* stream = nullptr;  ///< Managed by the channel; null while no call is in progress.

   protected:
    Caller() = default;
    ~Caller() = default;
  };

  /// `address` is the authority of requests and names the service in errors.
  HandshakerChannel(ChunkPool& pool, std::string_view address);
  /// Precondition: calls() == 0.
  ~HandshakerChannel();
  HandshakerChannel(const HandshakerChannel&) = delete;
  HandshakerChannel& operator=(const HandshakerChannel&) = delete;

  // ---- Calls

  /// Whether the service has sent its settings. No call may be opened before.
  bool ready() const { return codec_.greeted(); }
  /// Whether the connection takes no more calls: the service drains it, or its stream numbers are used up. Open calls
  /// continue.
  bool leaving() const { return codec_.draining() || opened_ == kMaxOpened; }
  /// Whether there is room for a call. A call that is done occupies its stream until the service ends it too.
  bool has_room() const;
  /// The number of open calls, without those that are done.
  size_t calls() const { return calls_; }
  /// Whether there are calls that are done but that the service has not ended.
  bool has_done() const { return streams_.size() > calls_; }
  /// Resets the calls that has_done() reports, to free their streams.
  void reset_done();

  /// Precondition: ready(), !leaving(), has_room().
  void open(Caller& caller, std::string_view request);
  /// Sends another request. Precondition: the call is open, and the last request has had its response.
  void send(Caller& caller, std::string_view request);
  /// Ends a call; its caller is not notified of anything more. `done`: ends it normally; otherwise it is canceled.
  void close(Caller& caller, bool done);

  // ---- The wire

  /// Sets the time, by which the rate of the service's unsolicited frames is measured.
  void set_now(uint64_t now_ms) { codec_.set_now(now_ms); }
  /// Takes received bytes. False when the connection is of no more use: all calls have ended with error().
  bool receive(Buffer&& data);
  /// Appends the bytes to send, until `out` has about `limit` bytes. Returns false as receive() does.
  bool produce(Buffer& out, size_t limit);
  /// Frees the memory that is not needed while no call is in progress.
  void park() { codec_.park(); }
  /// Ends all calls with `error`.
  void fail(const std::string& error);
  const std::string& error() const { return error_; }
  /// The reason that the service gave for ending the connection, or empty.
  const std::string& farewell() const { return farewell_; }

  /// Our bound on concurrent calls; the service's own bound may be lower.
  static constexpr size_t kMaxStreams = 200;
  /// Bound on a response. Handshake messages have less than 1 KiB.
  static constexpr size_t kMaxMessageBytes = size_t{128} * 1024;
  /// Bound on the header fields of a call's response, and on its trailer fields.
  static constexpr size_t kMaxHeaderBytes = size_t{16} * 1024;

 private:
  // A client uses every second stream number.
  static constexpr uint32_t kMaxOpened = kHttp2MaxStream / 2;

  // Http2Codec::ErrorReader
  void on_goaway(Http2Error error, std::string_view text) override;
  void on_stream_reset(Http2Error error) override { reset_error_ = error; }

  Head request_head() const;
  bool check_codec();
  void erase(Stream& stream);

  const std::string name_;  // Names the service in errors.
  const std::string authority_;
  Http2Limits limits_;
  Http2Counters counters_;
  const Http2Codec::Shared shared_;
  Http2Codec codec_;
  std::vector<std::unique_ptr<Stream>> streams_;  // Unordered.
  size_t calls_ = 0;
  uint32_t opened_ = 0;
  std::optional<Http2Error> reset_error_;  // The error of the RST_STREAM that on_reset() is about to report.
  std::string farewell_;
  std::string error_;
};

}  // namespace sluice
