#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "net/worker.h"

namespace sluice {

/// Threads for what a worker's other connections would have to wait for: a signature with an RSA key, the hash of a
/// password, the disk. They run at a lower priority than workers.
///
/// Used from several workers; each has a Desk, to which what is done comes back.
class HelperThreads {
 public:
  class Job {
   public:
    virtual ~Job() = default;
    /// On one of these threads.
    virtual void run() = 0;
    /// On the worker that gave it, whose object it is again. When its Desk goes, it is destroyed instead, wherever it
    /// is.
    virtual void finish(Worker& worker, std::unique_ptr<Job> self) = 0;
  };

  /// `threads` are started by start().
  explicit HelperThreads(unsigned threads) : thread_count_(threads) {}
  ~HelperThreads();
  HelperThreads(const HelperThreads&) = delete;
  HelperThreads& operator=(const HelperThreads&) = delete;

  /// No effect when they were started already.
  void start();
  /// Precondition: has_desk(). Jobs are done first in, first out.
  void give(std::unique_ptr<Job> job);
  /// Whether this thread has a Desk.
  static bool has_desk() { return Returns::current != nullptr; }

 private:
  struct Returns;

 public:
  /// Where a worker gets its jobs back, of all HelperThreads: made and destroyed on its thread, as the only one,
  /// outliving those who give jobs, but neither the HelperThreads nor the worker, which turns no more. Its jobs go with
  /// it: one that runs is waited for, one that has not begun does not run.
  class Desk {
   public:
    explicit Desk(Worker& worker);
    ~Desk();
    Desk(const Desk&) = delete;
    Desk& operator=(const Desk&) = delete;

   private:
    std::shared_ptr<Returns> returns_;
  };

 private:
  struct Given {
    std::unique_ptr<Job> job;
    std::shared_ptr<Returns> returns;
  };
  struct Returns : Message, std::enable_shared_from_this<Returns> {
    static inline constinit thread_local Returns* current = nullptr;

    std::mutex mutex;
    std::condition_variable changed;
    Worker* worker = nullptr;  // Null: it ends.
    size_t running = 0;        // Jobs that helpers have taken.
    std::vector<std::unique_ptr<Job>> jobs;
    bool posted = false;
    std::vector<HelperThreads*> helpers;  // That have got jobs. The worker's own.

    void begin();
    void put(std::unique_ptr<Job> job);
    void take();
  };

  void run();
  /// Those that have not begun.
  void drop_jobs_of(const Returns& returns);

  const unsigned thread_count_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Given> jobs_;
  bool stopping_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace sluice
