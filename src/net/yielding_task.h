#pragma once

#include "sluice/internal/check.h"

namespace sluice {

/// A long task, such as a handshake step. A worker runs one per turn of its loop, so that its other connections never
/// wait for more than one. The task is embedded in the object that it serves; destroying it removes it from the queue.
class YieldingTask {
 public:
  using Run = void (*)(void* context);
  YieldingTask(Run run, void* context) : run_(run), context_(context) {}
  ~YieldingTask() { cancel(); }
  YieldingTask(const YieldingTask&) = delete;
  YieldingTask& operator=(const YieldingTask&) = delete;

  bool queued() const { return next_ != nullptr; }
  void cancel() {
    if (!queued()) return;
    next_->previous_ = previous_;
    previous_->next_ = next_;
    next_ = previous_ = nullptr;
  }

 private:
  friend class YieldingQueue;
  YieldingTask() = default;  // A list head.
  YieldingTask* next_ = nullptr;
  YieldingTask* previous_ = nullptr;
  Run run_ = nullptr;
  void* context_ = nullptr;
};

/// The pending tasks of a worker, first in, first out.
class YieldingQueue {
 public:
  YieldingQueue() { head_.next_ = head_.previous_ = &head_; }
  ~YieldingQueue() { SLUICE_CHECK(empty()); }

  bool empty() const { return head_.next_ == &head_; }
  /// Queues a task. No effect if it is queued already.
  void push(YieldingTask& work) {
    if (work.queued()) return;
    work.previous_ = head_.previous_;
    work.next_ = &head_;
    work.previous_->next_ = head_.previous_ = &work;
  }
  /// Runs the first task. The task may be destroyed while it runs or queue itself again. Precondition: !empty().
  void run_one() {
    YieldingTask& work = *head_.next_;
    work.cancel();
    work.run_(work.context_);
  }

 private:
  YieldingTask head_;
};

}  // namespace sluice
