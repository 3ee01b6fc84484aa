#include "net/helper_threads.h"

#include <sys/resource.h>

#include <utility>

#include "pool/check.h"

namespace sluice {

namespace {

// Behind the workers, and before what has no hurry at all.
constexpr int kNice = 5;

}  // namespace

HelperThreads::Given::Given(std::unique_ptr<Job> given, std::shared_ptr<Returns> to)
    : job(std::move(given)), returns(std::move(to)) {
  const std::lock_guard lock(returns->mutex);
  ++returns->given;
}

HelperThreads::Given::~Given() {
  if (!returns) return;
  job.reset();
  const std::lock_guard lock(returns->mutex);
  if (--returns->given == 0) returns->changed.notify_all();
}

bool HelperThreads::Returns::are_wanted() {
  const std::lock_guard lock(mutex);
  return worker != nullptr;
}

// From a helper's thread.
void HelperThreads::Returns::put(std::unique_ptr<Job> job) {
  const std::lock_guard lock(mutex);
  if (!worker) return;
  jobs.push_back(std::move(job));
  if (!std::exchange(posted, true)) worker->post(*this);
}

// On the worker.
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
  std::unique_lock lock(returns_->mutex);
  returns_->worker = nullptr;
  returns_->changed.wait(lock, [this] { return returns_->given == 0; });
  returns_->jobs.clear();
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
  Given given(std::move(job), Returns::current->shared_from_this());
  const std::lock_guard lock(mutex_);
  jobs_.push_back(std::move(given));
  changed_.notify_one();
}

void HelperThreads::run() {
  setpriority(PRIO_PROCESS, 0, kNice);  // Of this thread, on Linux.
  SLUICE_CHECK(Worker::prepare_to_post().ok());
  for (;;) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return stopping_ || !jobs_.empty(); });
    if (stopping_) return;
    Given given = std::move(jobs_.front());
    jobs_.pop_front();
    lock.unlock();
    if (!given.returns->are_wanted()) continue;
    given.job->run();
    given.returns->put(std::move(given.job));
  }
}

}  // namespace sluice
