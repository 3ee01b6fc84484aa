#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "proxy/http/h2/http2_stream.h"
#include "sluice/internal/check.h"

namespace sluice {

/// Streams that have body to send and a window for it, in the order of RFC 9218: the most urgent first. Among equally
/// urgent streams, incremental ones take turns, and others are served one after the other in the order in which they
/// became ready.
class Http2Schedule {
 public:
  bool empty() const { return levels_ == 0; }

  void add(Http2Stream& stream) {
    if (stream.ready_) return;
    stream.ready_ = true;
    Http2Stream*& first = first_[stream.priority_.urgency];
    if (!first) {
      stream.next_ready_ = stream.previous_ready_ = &stream;
      first = &stream;
      levels_ = static_cast<uint8_t>(levels_ | 1u << stream.priority_.urgency);
      return;
    }
    stream.next_ready_ = first;
    stream.previous_ready_ = first->previous_ready_;
    first->previous_ready_->next_ready_ = &stream;
    first->previous_ready_ = &stream;
  }
  void remove(Http2Stream& stream) {
    if (!stream.ready_) return;
    stream.ready_ = false;
    Http2Stream*& first = first_[stream.priority_.urgency];
    if (stream.next_ready_ == &stream) {
      first = nullptr;
      levels_ = static_cast<uint8_t>(levels_ & ~(1u << stream.priority_.urgency));
      return;
    }
    stream.next_ready_->previous_ready_ = stream.previous_ready_;
    stream.previous_ready_->next_ready_ = stream.next_ready_;
    if (first == &stream) first = stream.next_ready_;
  }
  /// The stream to serve next. Precondition: not empty.
  Http2Stream& front() const { return *first_[static_cast<size_t>(std::countr_zero(levels_))]; }
  /// Notes that the front stream has sent a frame. An incremental stream then passes its turn to the next one.
  void pass_turn(Http2Stream& front) {
    SLUICE_DCHECK(front.ready_);
    if (front.priority_.incremental) first_[front.priority_.urgency] = front.next_ready_;
  }
  void change(Http2Stream& stream, Http2Priority priority) {
    const bool ready = stream.ready_;
    remove(stream);
    stream.priority_ = priority;
    if (ready) add(stream);
  }

 private:
  std::array<Http2Stream*, Http2Priority::kLevels> first_{};
  uint8_t levels_ = 0;  // Bit set of the levels that have streams.
};

}  // namespace sluice
