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

/// Threads for work that would block a worker's other connections: an RSA signature, a password hash, disk access. They
/// run at a lower priority than workers.
///
/// Several workers share them. Each worker has a Desk, which receives its finished jobs.
class HelperThreads {
 public:
  class Job {
   public:
    virtual ~Job() = default;
    /// Runs on a helper thread.
    virtual void run() = 0;
    /// Runs on the worker that gave the job and passes ownership back. If the worker's Desk is destroyed first, the job
    /// is destroyed instead.
    virtual void finish(Worker& worker, std::unique_ptr<Job> self) = 0;
  };

  /// The threads start in start().
  explicit HelperThreads(unsigned threads) : thread_count_(threads) {}
  ~HelperThreads();
  HelperThreads(const HelperThreads&) = delete;
  HelperThreads& operator=(const HelperThreads&) = delete;

  /// Starts the threads. No effect if they are running already.
  void start();
  /// Queues a job. Jobs run first in, first out. Precondition: has_desk().
  void give(std::unique_ptr<Job> job);
  /// Whether this thread has a Desk.
  static bool has_desk() { return Returns::current != nullptr; }

 private:
  struct Returns;

 public:
  /// Receives a worker's finished jobs from all HelperThreads. One per worker, created and destroyed on the worker's
  /// thread. It outlives the objects that give jobs. The HelperThreads and the worker outlive it, and the worker's loop
  /// has stopped before it is destroyed. The destructor waits for running jobs and drops those that have not started.
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
    Worker* worker = nullptr;  // Null once the Desk is being destroyed.
    size_t running = 0;        // Jobs that helper threads have taken.
    std::vector<std::unique_ptr<Job>> jobs;
    bool posted = false;
    std::vector<HelperThreads*> helpers;  // The instances that got jobs. Used by the worker only.

    void begin();
    void put(std::unique_ptr<Job> job);
    void take();
  };

  void run();
  /// Drops the jobs that have not started.
  void drop_jobs_of(const Returns& returns);

  const unsigned thread_count_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Given> jobs_;
  bool stopping_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace sluice
