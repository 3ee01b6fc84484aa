#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <thread>

#include "proxy/config/model/overload.h"
#include "proxy/overload/memory_reader.h"
#include "proxy/overload/overload_state.h"

namespace sluice {

/// Reads the memory in use some times a second, on a thread of its own, and publishes its level.
class MemoryWatch {
 public:
  /// Descriptors that it opens once it has started.
  static constexpr uint32_t kDescriptors = 1;

  /// `state` outlives it. `changed`: called on the thread when the level has changed, and, as long as it is not normal,
  /// after each reading.
  MemoryWatch(OverloadState& state, std::function<void()> changed);
  /// Ends the thread.
  ~MemoryWatch();
  MemoryWatch(const MemoryWatch&) = delete;
  MemoryWatch& operator=(const MemoryWatch&) = delete;

  /// Sets the marks, and reads the memory for the first time. On one thread. `budget_bytes`: what the buffers of all
  /// workers may have; a warning says so if that alone is beyond the mark `close`.
  void configure(const config::Overload& config, uint64_t budget_bytes);
  /// Starts the thread. Call it after configure().
  void start();
  /// The name of what limits the memory. Its text is valid for the rest of the process.
  std::string_view limit_name() const { return reader_.limit_name(limit_.load(std::memory_order_relaxed)); }

 private:
  void main();
  void log_change(MemoryLevel before, MemoryLevel now, const MemoryUse& use) const;

  OverloadState& state_;
  const std::function<void()> changed_;
  const MemoryReader reader_;
  std::mutex mutex_;  // Guards the members below.
  std::condition_variable wake_;
  config::OverloadMemory marks_;
  bool ends_ = false;
  std::atomic<uint64_t> limit_{0};  // Of marks_.
  std::thread thread_;
};

}  // namespace sluice
