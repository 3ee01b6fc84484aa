#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "buffer/buffer.h"

struct nghttp2_session;

namespace sluice {

/// One connection to a HandshakerService, without a socket: calls of DoHandshake by gRPC over HTTP/2. A call is a
/// stream of requests, and of as many responses.
///
///     if (channel.has_room()) channel.open(caller, request);
///     channel.produce(pool, to_send, limit);
///     ...
///     if (!channel.receive(std::move(received))) return give_up(channel.error());   // and hear what callers heard
class HandshakerChannel {
 public:
  struct Stream;

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
  explicit HandshakerChannel(std::string_view address);
  /// Precondition: no call is left.
  ~HandshakerChannel();
  HandshakerChannel(const HandshakerChannel&) = delete;
  HandshakerChannel& operator=(const HandshakerChannel&) = delete;

  // ---- Calls

  /// Whether the service has said what it bears. No call may be opened before.
  bool ready() const { return ready_; }
  /// Whether the service takes no more calls here. Those that there are go on.
  bool leaving() const { return leaving_; }
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

  /// Takes what was received. False when nothing more can come of this connection: calls have ended with error().
  bool receive(Buffer&& data);
  /// Appends what is to be sent, until `out` has about `limit` bytes. False as above.
  bool produce(ChunkPool& pool, Buffer& out, size_t limit);
  /// Ends all calls with `error`.
  void fail(const std::string& error);
  const std::string& error() const { return error_; }

  /// Calls at a time, as in gRPC's own clients of the service.
  static constexpr size_t kMaxCalls = 100;
  /// Of a response. Handshake messages have less than one KiB.
  static constexpr size_t kMaxMessageBytes = size_t{128} * 1024;
  /// Of the headers of a call's response, trailers included.
  static constexpr size_t kMaxHeaderBytes = size_t{16} * 1024;

 private:
  struct Callbacks;
  struct Settings;

  Stream* find(int32_t id);
  void erase(Stream& stream);
  void request(Stream& stream, std::string_view message);
  bool break_off(std::string why);
  bool goes_on();

  void take_header(Stream& stream, std::string_view name, std::string_view value);
  void take_head(Stream& stream);
  void take_data(Stream& stream, std::string_view data);
  void take_end(Stream& stream);
  void end(Stream& stream, const std::string& why, bool untouched = false);
  void reset(Stream& stream, uint32_t code);

  const std::string name_;  // In errors.
  const std::string authority_;
  nghttp2_session* session_ = nullptr;
  std::vector<std::unique_ptr<Stream>> streams_;  // By their ids.
  size_t calls_ = 0;
  bool ready_ = false;
  bool leaving_ = false;
  std::string complaint_;  // What nghttp2 has said last.
  std::string error_;
};

}  // namespace sluice
