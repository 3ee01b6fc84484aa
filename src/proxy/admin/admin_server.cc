#include "proxy/admin/admin_server.h"

#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "net/thread_priority.h"
#include "proxy/log/run_log.h"

namespace sluice {

namespace {

// Chunk memory of the listener. Responses wait as text and not in chunks, so a little goes a long way.
constexpr size_t kBudgetBytes = size_t{16} << 20;
constexpr uint16_t kRingEntries = 4;
// How many connections are accepted at once.
constexpr size_t kAtOnce = 16;
constexpr uint64_t kFiguresPollMs = 1;
constexpr uint64_t kStoppedPollMs = 10;
// How long leave() waits for connections that were announced to this process.
constexpr int kLeaveTimeoutMs = 500;

// Small heads: nothing that an operator sends is large.
Http1Options http1_options() {
  Http1Options options;
  options.limits.start_line_bytes = size_t{4} * 1024;
  options.limits.head_bytes = size_t{16} * 1024;
  options.limits.fields = 64;
  options.limits.pipelined_bytes = size_t{4} * 1024;
  return options;
}

}  // namespace

AdminServer::SocketListener::SocketListener(AdminServer& of, const ListenSocket& socket)
    : server(of),
      family(socket.family),
      listener(of.worker_->ring(), of.worker_->timers(), *this, socket.fd, socket.shared) {}

uint32_t AdminServer::SocketListener::accepting() {
  const size_t most = server.services_->settings.config.max_connections + kClosing;
  const size_t open = server.connections_.size();
  return open >= most ? 0 : static_cast<uint32_t>(std::min(most - open, kAtOnce));
}

void AdminServer::SocketListener::on_accepted(Listener&, int fd) {
  server.counters_.accepted.add();
  if (server.stopping_ || !server.make_room()) {
    server.counters_.refused_connections.add();
    ::close(fd);
    return;
  }
  AdminConnection* const connection = AdminConnection::start(*server.services_, fd, family);
  server.connections_.insert(connection);
  if (server.leaving_) connection->drain();
  server.counters_.open.set(server.connections_.size());
}

void AdminServer::SocketListener::on_accept_paused(Listener&, int error) {
  static LogLimit limit;
  if (!log_admits(limit, server.worker_->now_ms())) return;
  log_line(LogLevel::kWarning,
           absl::StrCat("admin: no connection can be accepted: ", std::strerror(error), left_out_text(limit)));
}

AdminServer::AdminServer(AdminPages& pages, AdminCounters& counters, Features features)
    : pages_(pages), counters_(counters) {
  thread_ = std::thread([this, features] { main(features); });
}

absl::StatusOr<std::unique_ptr<AdminServer>> AdminServer::start(AdminPages& pages, AdminCounters& counters,
                                                                Features features) {
  std::unique_ptr<AdminServer> server(new AdminServer(pages, counters, features));
  absl::Status ready = server->ready_.get_future().get();
  if (!ready.ok()) return ready;
  return server;
}

AdminServer::~AdminServer() {
  call([this] { stop(); });
  thread_.join();
}

void AdminServer::main(Features features) {
  pthread_setname_np(pthread_self(), "admin");
  give_way_to_workers();
  Worker::Options options;
  options.features = features;
  options.budget_bytes = kBudgetBytes;
  options.ring_entries = kRingEntries;
  options.max_sockets = 1024;
  auto worker = Worker::open(options);
  if (!worker.ok()) return ready_.set_value(worker.status());
  {
    const std::lock_guard lock(worker_mutex_);
    worker_ = std::move(*worker);
  }
  handshakers_ = std::make_unique<HandshakerServices>(*worker_);
  AdminServices::Owner& owner = *this;
  services_ = std::make_unique<AdminServices>(*worker_, *handshakers_, owner, pages_, counters_, http1_options());
  figures_timer_ = std::make_unique<Timer>([](void* self) { static_cast<AdminServer*>(self)->check_figures(); }, this);
  stopped_timer_ =
      std::make_unique<Timer>([](void* self) { static_cast<AdminServer*>(self)->destroy_stopped(); }, this);
  ready_.set_value(absl::OkStatus());
  worker_->run();
  figures_timer_.reset();
  stopped_timer_.reset();
  listeners_.clear();
  stopped_listeners_.clear();
  services_.reset();
  handshakers_.reset();
  // Destroyed here and not after the join, because only the thread that opened a ring may use it.
  const std::lock_guard lock(worker_mutex_);
  worker_.reset();
}

// ---- Requests of the control thread ----

// Runs `work` on the thread, and waits until it has run. Nothing happens if the thread could not start.
void AdminServer::call(std::function<void()> work) {
  Task task;
  task.work = std::move(work);
  task.run = [](Message& message, Worker&) {
    auto& self = static_cast<Task&>(message);
    std::promise<void> done = std::move(self.done);  // The task is gone as soon as the waiting thread wakes up.
    self.work();
    done.set_value();
  };
  std::future<void> done = task.done.get_future();
  {
    const std::lock_guard lock(worker_mutex_);
    if (!worker_) return;
    worker_->post(task);
  }
  done.wait();
}

void AdminServer::apply(AdminSettings settings, std::vector<ListenSocket> sockets) {
  call([&] {
    services_->settings = std::move(settings);
    std::vector<std::unique_ptr<SocketListener>> old = std::exchange(listeners_, {});
    for (const ListenSocket& each : sockets) listeners_.push_back(std::make_unique<SocketListener>(*this, each));
    for (auto& each : old) {
      each->listener.stop();
      stopped_listeners_.push_back(std::move(each));
    }
    for (auto& each : listeners_) each->listener.start();
    end_outdated();
    destroy_stopped();
  });
}

void AdminServer::leave() {
  call([this] {
    leaving_ = true;
    for (auto& each : listeners_) each->listener.leave();
    drain_all();
  });
  for (int left_ms = kLeaveTimeoutMs; left_ms > 0; --left_ms) {
    bool all_left = true;
    call([&] {
      all_left =
          std::all_of(listeners_.begin(), listeners_.end(), [](const auto& each) { return each->listener.left(); });
    });
    if (all_left) return;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

void AdminServer::accept_again() {
  call([this] {
    leaving_ = false;
    for (auto& each : listeners_) each->listener.reclaim();
  });
}

void AdminServer::stop() {
  stopping_ = true;
  for (auto& each : listeners_) {
    each->listener.stop(/*leave_backlog=*/true);
    stopped_listeners_.push_back(std::move(each));
  }
  listeners_.clear();
  drain_all();
  end_at_ms_ = worker_->now_ms() + kStopMs;
  destroy_stopped();
}

void AdminServer::drain_all() {
  const std::vector<AdminConnection*> all(connections_.begin(), connections_.end());
  for (AdminConnection* const each : all) each->drain();
}

// A client would use its connection again and again, and get no response but a refusal.
void AdminServer::end_outdated() {
  const std::vector<AdminConnection*> all(connections_.begin(), connections_.end());
  for (AdminConnection* const each : all) {
    if (!each->follows_rules()) each->drain();
  }
}

void AdminServer::destroy_stopped() {
  std::erase_if(stopped_listeners_, [](const auto& each) { return each->listener.stopped(); });
  if (stopping_ && connections_.empty() && stopped_listeners_.empty()) return worker_->stop();
  if (stopping_ && worker_->now_ms() >= end_at_ms_) {
    const std::vector<AdminConnection*> all(connections_.begin(), connections_.end());
    for (AdminConnection* const each : all) each->end();
  }
  if (stopping_ || !stopped_listeners_.empty()) {
    worker_->timers().arm(*stopped_timer_, worker_->now_ms() + kStoppedPollMs);
  }
}

// ---- Connections ----

void AdminServer::remove(AdminConnection& connection) {
  forget(connection);
  connections_.erase(&connection);
  if (connection.evicted) --ending_;
  counters_.open.set(connections_.size());
  for (auto& each : listeners_) each->listener.resume();
}

// False if there is no place for another connection. So that idle connections cannot keep operators out, the one that
// has waited longest makes room: of those that have not finished a handshake, if there are any, as anybody can make
// these.
bool AdminServer::make_room() {
  if (connections_.size() - ending_ < services_->settings.config.max_connections) return true;
  AdminConnection* oldest = nullptr;
  for (AdminConnection* const each : connections_) {
    if (each->evicted || each->waits_since_ms() == UINT64_MAX) continue;
    const auto order = [](const AdminConnection& one) { return std::pair(!one.shaking_hands(), one.waits_since_ms()); };
    if (!oldest || order(*each) < order(*oldest)) oldest = each;
  }
  if (!oldest) return false;
  oldest->evicted = true;
  ++ending_;
  counters_.evicted.add();
  oldest->end();
  return true;
}

// ---- Figures ----

// Requests that come while figures are on their way share them, if these will do.
void AdminServer::await_figures(AdminConnection& connection) {
  if (figures_due_ms_ != 0 && pages_.shares_figures(connection.request())) return waiting_.push_back(&connection);
  later_.push_back(&connection);
  if (figures_due_ms_ == 0) request_figures();
}

// Requests those that the next connection needs.
void AdminServer::request_figures() {
  pages_.request_figures(later_.front()->request());
  figures_due_ms_ = worker_->now_ms() + kFiguresTimeoutMs;
  const std::vector<AdminConnection*> all = std::exchange(later_, {});
  for (AdminConnection* const each : all) {
    (each == all.front() || pages_.shares_figures(each->request()) ? waiting_ : later_).push_back(each);
  }
  worker_->timers().arm(*figures_timer_, worker_->now_ms() + kFiguresPollMs);
}

void AdminServer::forget(AdminConnection& connection) {
  std::erase(waiting_, &connection);
  std::erase(later_, &connection);
}

void AdminServer::check_figures() {
  const bool complete = pages_.has_figures();
  if (!complete && worker_->now_ms() < figures_due_ms_) {
    return worker_->timers().arm(*figures_timer_, worker_->now_ms() + kFiguresPollMs);
  }
  // A connection may have its next request already, which shares these figures or waits for others.
  while (!waiting_.empty()) {
    AdminConnection* const next = waiting_.back();
    waiting_.pop_back();
    if (!complete) counters_.figures_timeouts.add();
    next->respond();
  }
  figures_due_ms_ = 0;
  if (!later_.empty()) request_figures();
}

}  // namespace sluice
