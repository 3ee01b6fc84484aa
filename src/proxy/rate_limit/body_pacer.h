#pragma once

#include <cstddef>
#include <utility>

#include "net/timer_wheel.h"
#include "net/yielding_task.h"
#include "proxy/http/message/fields.h"
#include "proxy/rate_limit/bandwidth.h"
#include "sluice/buffer.h"
#include "sluice/chunk_pointer.h"

namespace sluice {

class Worker;

/// A body that passes in pieces, each when the limits of bandwidth say that its turn has come. It holds what has
/// arrived before its turn; whoever adds bytes reads no more of the body until it is empty().
class BodyPacer {
 public:
  /// Called when take() may return something that it did not before.
  using Turn = void (*)(void* context);

  /// The limits and the worker outlive it.
  BodyPacer(Worker& worker, const Bandwidth& limits, Turn turn, void* context);
  ~BodyPacer();
  BodyPacer(const BodyPacer&) = delete;
  BodyPacer& operator=(const BodyPacer&) = delete;

  /// `end`: nothing follows, or only trailers.
  void add(Buffer&& bytes, bool end);
  void add_trailers(Fields&& trailers);
  /// Counts bytes that have passed.
  void charge(size_t bytes);

  struct Piece {
    Buffer bytes;
    bool end = false;  ///< Nothing follows but the trailers, which are in take_trailers() now.
  };
  /// Whether take() has a piece now. If not, it calls Turn when it does, unless more has to be added first.
  bool ready();
  /// Precondition: ready().
  Piece take();
  Fields take_trailers() { return std::exchange(trailers_, {}); }
  bool has_trailers() const { return !trailers_.empty(); }

  /// Calls Turn in one of the next turns of the loop. For a receiver that can take more.
  void call_soon();
  /// Drops what it holds, and calls Turn no more unless something is added. What was counted is given back.
  void stop();

  /// Bytes that wait here.
  size_t held() const { return waiting_.size(); }
  /// Whether everything that was added has been taken.
  bool empty() const { return waiting_.empty() && !ends_; }
  /// Whether the next piece waits for its turn.
  bool waits() const { return timer_.armed(); }
  /// Whether a piece has ever waited for its turn.
  bool has_waited() const { return has_waited_; }

 private:
  Worker& worker_;
  Bandwidth limits_;
  Timer timer_;
  YieldingTask soon_;
  Buffer waiting_;
  Fields trailers_;
  size_t reserved_ = 0;  // Bytes at the front of waiting_ that the limits have counted.
  bool ends_ = false;    // The end of the body was added and not taken.
  bool has_waited_ = false;
};

/// Those of a request and of its response; null: that body is not paced.
struct BodyPacers {
  ChunkPointer<BodyPacer> request, response;
};

}  // namespace sluice
