#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

#include "buffer/buffer.h"
#include "net/worker.h"
#include "proxy/http/message/fields.h"
#include "proxy/http/proxy/body_file.h"
#include "proxy/metrics/http_counters.h"

namespace sluice {

/// A body that waits for who is slow to take it, first in first out: a little of it in memory, the rest in the body
/// file, which other threads write. Of one worker.
class BodyBuffer {
 public:
  /// How much one body may have in memory at one place now. Where there are few, nothing needs to be written for who is
  /// only a little slower. The more memory the worker uses, for whatever it is, the less it is.
  static size_t share(Worker& worker);
  /// As much is used that nothing should be in memory which could be in the file.
  static bool is_pressed(Worker& worker) { return share(worker) == kMinShare; }
  static constexpr size_t kWorkerBytes = size_t{8} << 20;
  static constexpr size_t kMinShare = size_t{16} * 1024;
  static constexpr size_t kMaxShare = size_t{256} * 1024;

  /// Some of it is where it should be, or could not be brought there: take() and full() may say something else.
  using Moved = void (*)(void* context);

  /// At most `max_bytes`, as far as who brings it stops when it is full().
  BodyBuffer(Worker& worker, BodyFile& file, uint64_t max_bytes, BodyFileCounters& counters, Moved moved,
             void* context);
  ~BodyBuffer();
  BodyBuffer(const BodyBuffer&) = delete;
  BodyBuffer& operator=(const BodyBuffer&) = delete;

  void add(Buffer&& bytes) { back_.append(std::move(bytes)); }
  /// From the front, `bytes` at most: nothing where there is nothing, or where it is just being written.
  Buffer take(size_t bytes);
  /// The same of what lies in the file: who is slow should not get what would keep memory for as long.
  Buffer take_stored(size_t bytes) { return front_.empty() ? Buffer() : take(bytes); }
  /// In front of all, what was taken.
  void put_back(Buffer&& bytes);
  /// Has what is in memory brought to the file, if it is much, or `all` is to be: nobody takes it now.
  void store(bool all = false);

  size_t size() const { return front_.size() + writing_bytes_ + back_.size(); }
  bool empty() const { return size() == 0; }
  /// What is behind it, kept as it is.
  void put_trailers(Fields&& trailers) { trailers_ = std::move(trailers); }
  Fields take_trailers() { return std::exchange(trailers_, {}); }

  /// Who brings it should stop.
  bool full() const { return memory_bytes() >= (is_pressed(worker_) ? 1 : 2 * share(worker_)) || size() >= max_bytes_; }
  /// It is full(), and nothing changes that but who takes it: the file takes no more, or this is all that may wait.
  bool stays_full() const { return full() && !writing_; }

 private:
  class Write;

  size_t memory_bytes() const { return front_memory_ + writing_bytes_ + back_.size(); }
  size_t memory_in(const Buffer& bytes) const;
  void write();
  void take_back(Write& write);
  void written(Write& write);

  Worker& worker_;
  BodyFile& file_;
  const uint64_t max_bytes_;
  BodyFileCounters& counters_;
  const Moved moved_;
  void* const context_;
  Buffer front_;             // In the file, but for what it did not take,
  size_t front_memory_ = 0;  // which is so much.
  Write* writing_ = nullptr;
  size_t writing_bytes_ = 0;
  Buffer back_;
  Fields trailers_;
};

}  // namespace sluice
