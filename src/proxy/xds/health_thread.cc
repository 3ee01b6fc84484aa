#include "proxy/xds/health_thread.h"

#include <pthread.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "net/thread_priority.h"
#include "proxy/alts/handshaker_services.h"
#include "proxy/http/proxy/http_worker.h"
#include "proxy/log/run_log.h"
#include "proxy/xds/discovery.h"

namespace sluice::xds {
namespace {

constexpr size_t kHealthBudgetBytes = size_t{128} << 20;
constexpr uint16_t kHealthRingEntries = 4;

}  // namespace

HealthThread::HealthThread(const Bootstrap& bootstrap, std::string folder, HealthDiscoveryCounters& counters)
    : bootstrap_(bootstrap), folder_(std::move(folder)), counters_(counters), thread_([this] { main(); }) {}

HealthThread::~HealthThread() {
  struct Stop : Message {
    HealthReporter* reporter;
  } stop;
  stop.run = [](Message& message, Worker&) { static_cast<Stop&>(message).reporter->stop(); };
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    stop.reporter = reporter_;
    if (worker_ != nullptr) worker_->post(stop);
  }
  thread_.join();
}

void HealthThread::main() {
  pthread_setname_np(pthread_self(), "health");
  give_way_to_workers();
  Worker::Options options;
  options.budget_bytes = kHealthBudgetBytes;
  options.ring_entries = kHealthRingEntries;
  // A check that has ended may linger while the next one is made.
  options.max_sockets = 2 * CheckedClusters::kMaxChecks;
  auto opened = Worker::open(options);
  if (!opened.ok()) {
    log_line(LogLevel::kError, absl::StrCat("xds: there is no health discovery: ", opened.status().message()));
    return;
  }
  Worker& worker = **opened;
  HandshakerServices handshakers(worker);
  HttpWorker http({.worker = worker, .handshakers = handshakers});
  HealthReporter reporter(http,
                          {.service = *bootstrap_.of_health,
                           .node = write_node(bootstrap_.node, {}),
                           .on_ended = [&worker] { worker.stop(); }},
                          CheckSettingsMaker(bootstrap_.resources, folder_), counters_);
  {
    const std::lock_guard lock(mutex_);
    if (stopping_) return;
    worker_ = &worker;
    reporter_ = &reporter;
  }
  reporter.start();
  worker.run();
  const std::lock_guard lock(mutex_);
  worker_ = nullptr;
  reporter_ = nullptr;
}

}  // namespace sluice::xds
