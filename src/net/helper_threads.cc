#include "net/helper_threads.h"

#include <pthread.h>

#include <algorithm>
#include <utility>

#include "net/thread_priority.h"
#include "sluice/internal/check.h"

namespace sluice {

// Runs on a helper thread, before the job leaves the queue: from then on the Desk waits for it.
void HelperThreads::Returns::begin() {
  const std::lock_guard lock(mutex);
  ++running;
}

// Runs on a helper thread.
void HelperThreads::Returns::put(std::unique_ptr<Job> job) {
  const std::lock_guard lock(mutex);
  if (--running == 0) changed.notify_all();
  jobs.push_back(std::move(job));
  if (worker && !std::exchange(posted, true)) worker->post(*this);
}

// Runs on the worker.
void HelperThreads::Returns::take() {
  std::vector<std::unique_ptr<Job>> taken;
  {
    const std::lock_guard lock(mutex);
    taken.swap(jobs);
    posted = false;
  }
  for (std::unique_ptr<Job>& job : taken) {
    Job& done = *job;
    done.finish(*worker, std::move(job));
  }
}

HelperThreads::Desk::Desk(Worker& worker) : returns_(std::make_shared<Returns>()) {
  SLUICE_CHECK(!has_desk());
  returns_->worker = &worker;
  returns_->run = [](Message& message, Worker&) { static_cast<Returns&>(message).take(); };
  Returns::current = returns_.get();
}

HelperThreads::Desk::~Desk() {
  Returns::current = nullptr;
  for (HelperThreads* const helpers : returns_->helpers) helpers->drop_jobs_of(*returns_);
  std::unique_lock lock(returns_->mutex);
  returns_->worker = nullptr;
  returns_->changed.wait(lock, [this] { return returns_->running == 0; });
  returns_->jobs.clear();
}

void HelperThreads::drop_jobs_of(const Returns& returns) {
  const std::lock_guard lock(mutex_);
  std::erase_if(jobs_, [&](const Given& given) { return given.returns.get() == &returns; });
}

HelperThreads::~HelperThreads() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void HelperThreads::start() {
  const std::lock_guard lock(mutex_);
  while (threads_.size() < thread_count_) threads_.emplace_back([this] { run(); });
}

void HelperThreads::give(std::unique_ptr<Job> job) {
  SLUICE_CHECK(has_desk());
  Returns& returns = *Returns::current;
  if (std::find(returns.helpers.begin(), returns.helpers.end(), this) == returns.helpers.end()) {
    returns.helpers.push_back(this);
  }
  const std::lock_guard lock(mutex_);
  jobs_.push_back({std::move(job), returns.shared_from_this()});
  changed_.notify_one();
}

void HelperThreads::run() {
  pthread_setname_np(pthread_self(), "helper");
  give_way_to_workers();
  SLUICE_CHECK(Worker::prepare_to_post().ok());
  for (;;) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return stopping_ || !jobs_.empty(); });
    if (stopping_) return;
    Given given = std::move(jobs_.front());
    given.returns->begin();
    jobs_.pop_front();
    lock.unlock();
    given.job->run();
    given.returns->put(std::move(given.job));
  }
}

}  // namespace sluice
