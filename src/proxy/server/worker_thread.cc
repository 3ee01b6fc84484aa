#include "proxy/server/worker_thread.h"

#include <unistd.h>

#include <algorithm>
#include <utility>

#include "proxy/http/proxy/http_session_factory.h"
#include "proxy/l4/l4_session.h"
#include "proxy/server/metrics_report.h"
#include "proxy/tls/key_signer.h"

namespace sluice {

namespace {

// Interval at which a draining worker checks whether its last session has ended.
constexpr uint64_t kDrainPollMs = 20;

}  // namespace

WorkerThread::WorkerThread(Worker::Options options, Shared shared, std::vector<int> listen_fds,
                           std::vector<bool> shared_fd)
    : options_(options), shared_(std::move(shared)) {
  const auto request = [this](Request& r, void (*run)(Message&, Worker&)) {
    r.run = run;
    r.thread = this;
  };
  request(drain_, [](Message& m, Worker&) { static_cast<Request&>(m).thread->begin_drain(); });
  request(shut_down_, [](Message& m, Worker&) {
    WorkerThread* self = static_cast<Request&>(m).thread;
    self->begin_drain();
    for (auto& acceptor : self->acceptors_) acceptor->shut_down();
    self->http_->shut_down();
    for (auto& checker : self->checkers_) checker->close();
  });
  request(snapshot_, [](Message& m, Worker&) {
    WorkerThread* self = static_cast<Request&>(m).thread;
    self->update_counters();
    self->snapshots_.fetch_add(1, std::memory_order_release);
  });
  request(follow_, [](Message& m, Worker&) {
    WorkerThread* self = static_cast<Request&>(m).thread;
    self->following_.store(false, std::memory_order_release);
    for (auto& balancer : self->balancers_) balancer->follow_endpoints();
    self->http_->follow_endpoints();
    for (auto& checker : self->checkers_) checker->follow_endpoints();
  });
  thread_ = std::thread([this, fds = std::move(listen_fds), shared_fds = std::move(shared_fd)]() mutable {
    main(std::move(fds), std::move(shared_fds));
  });
}

WorkerThread::~WorkerThread() { thread_.join(); }

void WorkerThread::follow_endpoints() {
  if (!following_.exchange(true, std::memory_order_acq_rel)) post(follow_);
}

void WorkerThread::post(Request& request) {
  std::lock_guard lock(worker_mutex_);
  if (worker_) worker_->post(request);
}

void WorkerThread::main(std::vector<int> listen_fds, std::vector<bool> shared_fd) {
  auto worker = Worker::open(options_);
  if (!worker.ok()) {
    for (int fd : listen_fds) ::close(fd);
    stopped_.store(true, std::memory_order_release);
    ready_.set_value(worker.status());
    return;
  }
  {
    std::lock_guard lock(worker_mutex_);
    worker_ = std::move(*worker);
  }
  for (auto& upstream : shared_.upstreams) {
    balancers_.push_back(std::make_unique<Balancer>(*upstream, options_.index));
    tls_sessions_.emplace_back(upstream->size());
  }
  handshakers_ = std::make_unique<HandshakerServices>(*worker_, shared_.lookup_threads);
  http_ = std::make_unique<HttpWorker>(
      HttpWorker::Context{*worker_, balancers_, tls_sessions_, *handshakers_, shared_.counters, shared_.body_file});
  start_checks();
  uint64_t backlogs = 0;
  for (const config::Listener& listener : shared_.config.listeners)
    backlogs += uint64_t{listener.backlog} * shared_.workers;
  for (size_t i = 0; i < listen_fds.size(); ++i) {
    const ClientAcceptor::Context context{*worker_,
                                          shared_.global_connections,
                                          *shared_.listeners[i],
                                          balancers_,
                                          tls_sessions_,
                                          *handshakers_,
                                          shared_.counters,
                                          i,
                                          shared_.descriptor_room,
                                          backlogs - shared_.config.listeners[i].backlog};
    acceptors_.push_back(
        std::make_unique<ClientAcceptor>(context, make_session_factory(context), listen_fds[i], shared_fd[i]));
    acceptors_.back()->start();
  }
  ready_.set_value(absl::OkStatus());
  {
    KeySigner::Desk signatures(*worker_);
    worker_->run();
    drain_timer_.reset();
    update_counters();
    acceptors_.clear();
    checkers_.clear();
    http_.reset();
    handshakers_.reset();
  }
  update_gauges(*worker_, shared_.counters.gauges);
  // Destroyed here and not after the join, because only the thread that opened a ring may use it.
  std::lock_guard lock(worker_mutex_);
  worker_.reset();
  stopped_.store(true, std::memory_order_release);
}

std::unique_ptr<SessionFactory> WorkerThread::make_session_factory(const ClientAcceptor::Context& context) {
  if (!context.listener.config.http) return std::make_unique<L4SessionFactory>();
  AccessLogWriter* const access_log =
      shared_.access_logs.empty() ? nullptr : shared_.access_logs[context.listener_index];
  return std::make_unique<HttpSessionFactory>(context, *http_, access_log);
}

void WorkerThread::update_counters() {
  update_gauges(*worker_, shared_.counters.gauges);
  for (size_t i = 0; i < balancers_.size(); ++i) shared_.counters.balancers[i].set(balancers_[i]->counts());
  http_->update_counters();
  for (auto& acceptor : acceptors_) acceptor->update_counters();
}

// Each upstream is checked by one worker only, because one check per endpoint is enough.
void WorkerThread::start_checks() {
  for (size_t i = options_.index; i < shared_.upstreams.size(); i += shared_.workers) {
    if (!shared_.upstreams[i]->config().health_check) continue;
    checkers_.push_back(std::make_unique<HealthChecker>(*http_, *balancers_[i]));
    checkers_.back()->start();
  }
}

void WorkerThread::begin_drain() {
  if (drain_timer_) return;
  for (auto& acceptor : acceptors_) {
    acceptor->stop_accepting();
    acceptor->drain();
  }
  drain_timer_ = std::make_unique<Timer>([](void* self) { static_cast<WorkerThread*>(self)->stop_if_idle(); }, this);
  stop_if_idle();
}

void WorkerThread::stop_if_idle() {
  bool idle = std::all_of(acceptors_.begin(), acceptors_.end(), [](const auto& acceptor) { return acceptor->idle(); });
  if (idle) {
    for (auto& checker : checkers_) checker->close();
    http_->close();  // closes what only sessions needed
    idle = http_->idle() && std::all_of(checkers_.begin(), checkers_.end(), [](const auto& c) { return c->idle(); });
  }
  if (idle) {
    handshakers_->close();  // closes what only upstream connections and checks needed
    idle = handshakers_->idle();
  }
  if (idle) return worker_->stop();
  worker_->timers().arm(*drain_timer_, worker_->now_ms() + kDrainPollMs);
}

}  // namespace sluice
