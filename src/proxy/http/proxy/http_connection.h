#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <utility>

#include "buffer/buffer.h"
#include "net/timer_wheel.h"
#include "pool/chunk_pool.h"
#include "proxy/http/message/codec.h"
#include "proxy/transport/transport.h"

namespace sluice {

class HttpWorker;

/// Frees a codec, in whatever memory it is.
struct CodecDeleter {
  Chunk* chunk = nullptr;  ///< That it lies in; else it lies on the heap.
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

/// For those that come and go: on the heap they would leave holes between what stays.
template <class Codec, class... Args>
CodecPointer make_codec_in_chunk(ChunkPool& pool, Args&&... args) {
  Chunk* const chunk = pool.get_metadata(sizeof(Codec));
  return CodecPointer(new (chunk->data) Codec(std::forward<Args>(args)...), CodecDeleter{chunk});
}

/// A connection that speaks HTTP: a codec on its transport, with either role. What the codec has to send is put
/// together once, at the end of the loop's batch, from all that the batch brought.
///
/// It ends in order: what is queued goes out, then the end of what we send, and then for a moment what still comes is
/// read and dropped, since to close before would have the peer lose what it has not read (RFC 9112 section 9.6).
class HttpConnection : protected Transport::Owner {
 public:
  HttpCodec& codec() { return *codec_; }
  bool has_codec() const { return codec_ != nullptr; }
  /// After calls to one of its streams that did not come out of this link's own codec: what they lead to is done at the
  /// end of the batch.
  void wake();

  HttpWorker& worker() { return worker_; }

 protected:
  HttpConnection(HttpWorker& worker)
      : worker_(worker),
        transport_(worker_of(worker), *this),
        timer_([](void* self) { static_cast<HttpConnection*>(self)->on_timer(); }, this) {}
  virtual ~HttpConnection();

  /// From here on bytes are the codec's.
  void speak(CodecPointer codec);
  /// The codec's status is no longer kOpen, and all it had to send is with the transport.
  virtual void on_codec_done() = 0;
  /// The end of a batch in which something happened.
  virtual void on_pumped() {}
  /// So many bytes go out.
  virtual void on_flushed(size_t bytes) = 0;
  virtual void on_timer() = 0;
  /// Both the codec's streams and the transport have ended: the link may go, at the end of the batch.
  virtual void on_gone() = 0;
  /// Whether it may read more now, as far as memory goes.
  virtual bool may_read() { return true; }
  /// Bytes queued in the transport from which on the codec keeps what it has.
  virtual size_t send_mark() const = 0;

  void arm_timer(uint64_t due_ms);
  /// The end of a connection that has nothing more to send. `cut`: what was sent is not all.
  void linger(bool cut);
  /// The end of one whose end would make what was sent look whole: a reset. As that overtakes what the peer has not
  /// received, it waits for the peer's acknowledgement.
  void cut_off();
  bool lingering() const { return lingering_; }
  void reset();
  void close();
  bool ending() const { return lingering_ || closing_; }
  /// Whether something was read or sent since; for timers.
  uint64_t last_active_ms() const { return last_active_ms_; }
  uint64_t last_sent_ms() const { return last_sent_ms_; }
  /// Whether the peer has taken something since it was looked at last: last_sent_ms() says so.
  void look_for_progress();
  /// The timer of one that lingers.
  void linger_timeout();

  // Transport::Owner
  void on_data(Transport& transport, Buffer&& data) override;
  void on_end(Transport& transport, bool truncated) override;
  void on_sent(Transport& transport) override;
  void on_error(Transport& transport, int error) override;
  void on_record_error(Transport& transport, std::string_view error) override;
  void on_closed(Transport& transport) override;
  size_t receive_credit(Transport& transport) override;

  HttpWorker& worker_;
  [[no_unique_address]] Transport transport_;  // Its last 8 bytes are free.
  CodecPointer codec_;

 private:
  friend class HttpWorker;
  static Worker& worker_of(HttpWorker& worker);
  /// What wake() has promised.
  void pump();
  void lose();
  void finish_linger() { cuts_off_ ? reset() : close(); }

  HttpConnection* next_awake_ = nullptr;
  Timer timer_;
  uint64_t last_active_ms_ = 0;
  uint64_t last_sent_ms_ = 0;
  uint64_t linger_until_ms_ = 0;
  uint64_t acknowledged_ = 0;  // By the peer, when that was looked at last.
  bool awake_ = false;
  bool resumed_ = false;  // Input that waited for this turn is read now.
  bool lingering_ = false;
  bool cuts_off_ = false;  // Lingers, and ends by a reset.
  bool closing_ = false;
  bool told_done_ = false;
};

}  // namespace sluice
