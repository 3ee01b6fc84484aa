#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <utility>

#include "net/timer_wheel.h"
#include "proxy/http/message/codec.h"
#include "proxy/http/proxy/connection_pump.h"
#include "proxy/transport/transport.h"
#include "sluice/buffer.h"
#include "sluice/chunk_pool.h"

namespace sluice {

class HttpServices;

/// Frees a codec in a chunk or on the heap.
struct CodecDeleter {
  Chunk* chunk = nullptr;  ///< The chunk that the codec lies in; null: the heap.
  void operator()(HttpCodec* codec) const {
    if (!chunk) {
      delete codec;
      return;
    }
    codec->~HttpCodec();
    chunk_unref(chunk);
  }
};
using CodecPointer = std::unique_ptr<HttpCodec, CodecDeleter>;

template <class Codec, class... Args>
CodecPointer make_codec(Args&&... args) {
  return CodecPointer(new Codec(std::forward<Args>(args)...));
}

/// For codecs that come and go: on the heap they would leave holes between longer-lived objects.
template <class Codec, class... Args>
CodecPointer make_codec_in_chunk(ChunkPool& pool, Args&&... args) {
  Chunk* const chunk = pool.get_metadata(sizeof(Codec));
  return CodecPointer(new (chunk->data) Codec(std::forward<Args>(args)...), CodecDeleter{chunk});
}

/// A connection that speaks HTTP: a codec on its transport, as client or as server. Output of the codec is flushed once
/// at the end of the loop's batch, for everything that the batch brought.
///
/// It ends in order: it sends the queued output, then the end of stream, and then reads and drops input for a moment,
/// because closing earlier could make the peer lose what it has not read (RFC 9112 section 9.6).
class HttpConnection : protected Transport::Owner, private PumpedConnection {
 protected:
  /// How the peer's direction ended.
  enum class PeerEnd : uint8_t { kNone, kOrderly, kTruncated, kError };

 private:
  // First, as there is room behind the base class.
  bool lingering_ = false;
  PeerEnd deferred_end_ = PeerEnd::kNone;
  bool cuts_off_ = false;  // Ends with a reset after lingering.
  bool closing_ = false;
  bool done_reported_ = false;

 public:
  HttpCodec& codec() { return *codec_; }
  bool has_codec() const { return codec_ != nullptr; }
  /// Schedules the connection for the end of the batch. Required after a call to one of its streams from outside this
  /// connection's own codec.
  void wake();

  HttpServices& services() { return services_; }
  /// Does what wake() scheduled.
  static bool pump(PumpedConnection& connection) { return static_cast<HttpConnection&>(connection).pump(); }

 protected:
  HttpConnection(HttpServices& services)
      : services_(services),
        transport_(worker_of(services), *this),
        timer_([](void* self) { static_cast<HttpConnection*>(self)->on_timer(); }, this) {}
  virtual ~HttpConnection();

  /// Passes all further bytes to the codec.
  void speak(CodecPointer codec);
  /// The codec has left kOpen, and all its output has been passed to the transport.
  virtual void on_codec_done() = 0;
  /// The end of a batch in which the connection was awake.
  virtual void on_pumped() {}
  /// The end of a batch in which wake() was called before there was a codec.
  virtual void on_woken() {}
  /// This many bytes are about to be sent.
  virtual void on_flushed(size_t bytes) = 0;
  virtual void on_timer() = 0;
  /// The transport has closed and all streams have ended. The connection may be destroyed at the end of the batch.
  virtual void on_gone() = 0;
  /// Whether memory limits let it read more now.
  virtual bool may_read() { return true; }
  /// The number of bytes queued in the transport from which on the codec keeps its output.
  virtual size_t send_mark() const = 0;

  /// Takes `bytes` of what a turn of the loop has time for. If nothing is left, returns false, and wakes the connection
  /// in a later turn.
  bool take_time(size_t bytes);
  void arm_timer(uint64_t due_ms);
  /// Ends a connection that has nothing more to send. `cut`: the output is not complete.
  void linger(bool cut);
  /// Ends a connection with a reset, if an orderly end would make truncated output look complete. As a reset overtakes
  /// data that the peer has not received, it waits for the peer's acknowledgment.
  void cut_off();
  bool lingering() const { return lingering_; }
  void reset();
  void close();
  /// The connection continues elsewhere: its descriptor was taken from the transport. on_gone() follows.
  void leave();
  bool ending() const { return lingering_ || closing_; }
  /// Passes on all that the codec holds, beyond send_mark() if need be: the connection is about to move. False: it
  /// still holds bytes of a tunnel.
  bool empty_codec();
  /// The time of the last read or completed send; for timers.
  uint64_t last_active_ms() const { return last_active_ms_; }
  uint64_t last_sent_ms() const { return last_sent_ms_; }
  /// Checks whether the peer has acknowledged data since the last check, and updates last_sent_ms() if so.
  void check_progress();
  /// The timer of a lingering connection.
  void linger_timeout();

  /// Puts off the end of a connection with many streams to a turn of the loop that has time for it, so that a crowd
  /// that leaves at once does not hold up the others. False if it can be handled now.
  bool defer_end(PeerEnd how);

  // Transport::Owner
  void on_data(Transport& transport, Buffer&& data) override;
  void on_end(Transport& transport, bool truncated) override;
  void on_sent(Transport& transport) override;
  void on_error(Transport& transport, int error) override;
  void on_record_error(Transport& transport, std::string_view error) override;
  void on_closed(Transport& transport) override;
  size_t receive_credit(Transport& transport) override;

  HttpServices& services_;
  [[no_unique_address]] Transport transport_;  // Its last 8 bytes are free.
  CodecPointer codec_;

 private:
  static Worker& worker_of(HttpServices& services);
  bool pump();
  void pump_codec();
  void lose();
  void end_unopened();
  void handle_deferred_end();
  void finish_linger() { cuts_off_ ? reset() : close(); }

  Timer timer_;
  uint64_t last_active_ms_ = 0;
  uint64_t last_sent_ms_ = 0;
  uint32_t linger_began_ms_ = 0;  // Modulo 2^32.
  uint32_t acknowledged_ = 0;     // Bytes that the peer had acknowledged at the last check, modulo 2^32.
};

}  // namespace sluice
