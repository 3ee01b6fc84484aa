#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

#include "net/worker.h"
#include "proxy/http/message/fields.h"
#include "proxy/http/proxy/body_file.h"
#include "proxy/metrics/http_counters.h"
#include "sluice/buffer.h"

namespace sluice {

/// A body that waits for a slow receiver, first in, first out: a small part of it in memory, the rest in the body file,
/// which other threads write. Belongs to one worker.
class BodyBuffer {
 public:
  /// How much memory one body may use at one place now. With few bodies, nothing needs to be written for a receiver
  /// that is only slightly slow. The more memory the worker uses, for any purpose, the smaller the share.
  static size_t share(Worker& worker);
  /// Whether so much memory is in use that everything that can be in the file should be there.
  static bool is_pressed(Worker& worker) { return share(worker) == kMinShare; }
  static constexpr size_t kWorkerBytes = size_t{8} << 20;
  static constexpr size_t kMinShare = size_t{16} * 1024;
  static constexpr size_t kMaxShare = size_t{256} * 1024;

  /// Called after a write to the file has ended, successfully or not: the results of take() and full() may have
  /// changed.
  using Moved = void (*)(void* context);

  /// Holds at most `max_bytes`, provided that the sender stops when it is full(). The worker, the file and the counters
  /// outlive it.
  BodyBuffer(Worker& worker, BodyFile& file, uint64_t max_bytes, BodyFileCounters& counters, Moved moved,
             void* context);
  ~BodyBuffer();
  BodyBuffer(const BodyBuffer&) = delete;
  BodyBuffer& operator=(const BodyBuffer&) = delete;

  void add(Buffer&& bytes) { back_.append(std::move(bytes)); }
  /// Takes up to `bytes` from the front. Returns nothing if the buffer is empty, or while the front is being written.
  Buffer take(size_t bytes);
  /// Like take(), but leaves bytes that are still to be written to the file: a slow receiver must not hold memory for
  /// as long as it is slow.
  Buffer take_stored(size_t bytes) { return front_.empty() ? Buffer() : take(bytes); }
  /// Puts bytes that were taken back at the front.
  void put_back(Buffer&& bytes);
  /// Starts to write the bytes in memory to the file if there are many of them, or any of them if `all`. Call it when
  /// nothing takes them now.
  void store(bool all = false);

  size_t size() const { return front_.size() + writing_bytes_ + back_.size(); }
  bool empty() const { return size() == 0; }
  /// Keeps the trailers that follow the body.
  void put_trailers(Fields&& trailers) { trailers_ = std::move(trailers); }
  Fields take_trailers() { return std::exchange(trailers_, {}); }

  /// The part of it that is not only in the file.
  size_t memory_bytes() const { return front_memory_ + writing_bytes_ + back_.size(); }
  /// Whether the sender should stop.
  bool full() const { return memory_bytes() >= (is_pressed(worker_) ? 1 : 2 * share(worker_)) || size() >= max_bytes_; }
  /// Whether it is full() and stays so until bytes are taken: the file takes no more, or `max_bytes` is reached.
  bool stays_full() const { return full() && !writing_; }

 private:
  class Write;

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
  Buffer front_;             // In the file, except for the bytes that it refused.
  size_t front_memory_ = 0;  // How many bytes of front_ are in memory.
  Write* writing_ = nullptr;
  size_t writing_bytes_ = 0;
  Buffer back_;
  Fields trailers_;
};

}  // namespace sluice
