#include "proxy/server/worker_thread.h"

#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <string_view>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "proxy/http/proxy/http_session_factory.h"
#include "proxy/http/proxy/otlp_access_log.h"
#include "proxy/l4/l4_session.h"
#include "proxy/listener/listener_choice.h"
#include "proxy/profile/allocation_sampler.h"
#include "proxy/server/metrics_report.h"
#include "proxy/tls/key_signer.h"

namespace sluice {

namespace {

// Interval at which a draining worker checks whether its last session has ended.
constexpr uint64_t kDrainPollMs = 20;
// How many sessions of a worker begin to move to another process in each millisecond, if there is time.
constexpr size_t kMovesPerMs = 16;
// Interval at which a worker checks whether parts of earlier generations are still in use.
constexpr uint64_t kUnusedPollMs = 100;

// Whether the clients of `old` were admitted by the same rules as those of `now`, so that they may go on there: nobody
// may stay who would not have been let in.
bool admits_the_same(const config::Listener& old, const config::Listener& now) {
  if (!old.http || !now.http || old.alts != now.alts || old.proxy_protocol != now.proxy_protocol) return false;
  if (!old.tls || !now.tls) return !old.tls && !now.tls;
  return old.tls->client_ca == now.tls->client_ca && old.tls->client_certificate == now.tls->client_certificate;
}

// Whether none of them accepts connections any more.
template <class Acceptors>
bool have_left(const Acceptors& acceptors) {
  return std::all_of(acceptors.begin(), acceptors.end(), [](const auto& each) { return each->has_left(); });
}

template <class Items>
bool all_idle(const Items& items) {
  return std::all_of(items.begin(), items.end(), [](const auto& each) { return each->idle(); });
}

}  // namespace

WorkerThread::WorkerThread(Worker::Options options, const Shared& shared, WorkerGeneration first)
    : options_(options), shared_(shared) {
  const auto request = [this](Request& r, void (*run)(Message&, Worker&)) {
    r.run = run;
    r.thread = this;
  };
  request(apply_, [](Message& m, Worker&) {
    WorkerThread* self = static_cast<Request&>(m).thread;
    self->http_->set_body_file(self->next_body_file_);
    self->adopt(*std::exchange(self->next_, std::nullopt));
    self->check_applied();
  });
  request(leave_, [](Message& m, Worker&) {
    WorkerThread* self = static_cast<Request&>(m).thread;
    for (auto& acceptor : self->old_acceptors_) {
      if (std::find(self->left_.begin(), self->left_.end(), &acceptor->listener()) == self->left_.end()) continue;
      self->leave_now_ ? acceptor->end_all() : acceptor->drain_all();
    }
    const auto finish = [](void* thread) {
      static_cast<WorkerThread*>(thread)->destroy_unused();
      static_cast<WorkerThread*>(thread)->applied_.set_value();
    };
    self->worker_->defer(finish, self);
  });
  request(drain_, [](Message& m, Worker&) {
    WorkerThread* self = static_cast<Request&>(m).thread;
    self->begin_drain();
    self->check_left();
  });
  request(shut_down_, [](Message& m, Worker&) {
    WorkerThread* self = static_cast<Request&>(m).thread;
    self->begin_drain();
    for (auto& acceptor : self->acceptors_) acceptor->shut_down();
    for (auto& acceptor : self->old_acceptors_) acceptor->shut_down();
    self->http_->shut_down();
    for (Checks& each : self->checks_) each.checker->close();
  });
  request(snapshot_, [](Message& m, Worker&) {
    WorkerThread* self = static_cast<Request&>(m).thread;
    self->update_counters();
    self->snapshots_.fetch_add(1, std::memory_order_release);
  });
  request(follow_, [](Message& m, Worker&) {
    WorkerThread* self = static_cast<Request&>(m).thread;
    self->following_.store(false, std::memory_order_release);
    for (auto& upstream : self->upstreams_) upstream->balancer.follow_endpoints();
    self->http_->follow_endpoints();
    for (Checks& each : self->checks_) each.checker->follow_endpoints();
  });
  request(list_, [](Message& m, Worker&) {
    WorkerThread* self = static_cast<Request&>(m).thread;
    self->listing_.store(false, std::memory_order_release);
    std::shared_ptr<ConnectionTable> table;
    {
      const std::lock_guard lock(self->worker_mutex_);
      table = std::move(self->next_table_);
    }
    if (table) self->lister_->begin(std::move(table));
  });
  request(begin_moving_out_, [](Message& m, Worker&) {
    WorkerThread* self = static_cast<Request&>(m).thread;
    self->begin_moving_out();
  });
  request(end_moving_out_, [](Message& m, Worker&) {
    WorkerThread* self = static_cast<Request&>(m).thread;
    for (auto& acceptor : self->old_acceptors_) acceptor->end_moving_out(self->accepts_again_);
    for (auto& acceptor : self->acceptors_) acceptor->end_moving_out(self->accepts_again_);
    self->ended_moving_out_.set_value();
  });
  request(count_stays_, [](Message& m, Worker&) {
    WorkerThread* self = static_cast<Request&>(m).thread;
    StayCounts counts{};
    for (auto& acceptor : self->old_acceptors_) acceptor->count_stays(counts);
    for (auto& acceptor : self->acceptors_) acceptor->count_stays(counts);
    self->stays_counted_.set_value(counts);
  });
  request(follow_memory_, [](Message& m, Worker&) {
    WorkerThread* self = static_cast<Request&>(m).thread;
    self->following_memory_.store(false, std::memory_order_release);
    self->apply_memory_level();
  });
  request(follow_profile_, [](Message& m, Worker&) {
    WorkerThread* self = static_cast<Request&>(m).thread;
    // Not a mere store: what a caller did before it saw `true` must be seen here.
    self->following_profile_.exchange(false, std::memory_order_acq_rel);
    AllocationSampler::follow(self->worker_->pool());
  });
  thread_ = std::thread([this, generation = std::move(first)]() mutable { main(std::move(generation)); });
}

WorkerThread::~WorkerThread() { thread_.join(); }

std::future<void> WorkerThread::apply(WorkerGeneration next, BodyFile* body_file) {
  next_ = std::move(next);
  next_body_file_ = body_file;
  applied_ = std::promise<void>();
  std::future<void> applied = applied_.get_future();
  post(apply_);
  return applied;
}

std::future<void> WorkerThread::leave(std::vector<const ListenerState*> listeners, bool now) {
  left_ = std::move(listeners);
  leave_now_ = now;
  applied_ = std::promise<void>();
  std::future<void> applied = applied_.get_future();
  post(leave_);
  return applied;
}

void WorkerThread::follow_endpoints() {
  if (!following_.exchange(true, std::memory_order_acq_rel)) post(follow_);
}

void WorkerThread::follow_memory() {
  if (!following_memory_.exchange(true, std::memory_order_acq_rel)) post(follow_memory_);
}

void WorkerThread::follow_profile() {
  if (!following_profile_.exchange(true, std::memory_order_acq_rel)) post(follow_profile_);
}

void WorkerThread::apply_memory_level() {
  worker_->set_scarce(overload_->reduces());
  if (overload_->reduces()) review_memory();
}

void WorkerThread::note_turn(uint64_t busy_ms) {
  const uint64_t now_ms = worker_->now_ms();
  overload_->note_turn(now_ms, busy_ms, http_->forward_queue().wait_ms());
  if (overload_->note_recalled(now_ms, worker_->pool().recalled_bytes())) [[unlikely]]
    review_memory();
}

void WorkerThread::review_memory() {
  for (Acceptors* const each : {&acceptors_, &old_acceptors_}) {
    for (auto& acceptor : *each) acceptor->review_memory();
  }
}

std::future<void> WorkerThread::begin_moving_out(Departures& departures, config::Duration drain_after) {
  drain_after_ = drain_after;
  departures_ = &departures;
  return post_leaving(begin_moving_out_);
}

// All sessions have begun to move after a quarter of the time at the latest; with few sessions at a pace that leaves
// other connections their processor time.
void WorkerThread::begin_moving_out() {
  size_t sessions = 0;
  for (const auto& acceptor : acceptors_) sessions += acceptor->sessions();
  for (const auto& acceptor : old_acceptors_) sessions += acceptor->sessions();
  const uint64_t drain_after_ms = config::milliseconds(drain_after_);
  const size_t per_ms = std::max<size_t>(kMovesPerMs, sessions / std::max<uint64_t>(drain_after_ms / 4, 1));
  const auto begin = [&](ClientAcceptor& acceptor) {
    const size_t share = sessions == 0 ? 0 : per_ms * acceptor.sessions() / sessions;
    acceptor.begin_moving_out(*departures_, worker_->now_ms() + drain_after_ms, std::max<size_t>(share, 1));
  };
  for (auto& acceptor : old_acceptors_) begin(*acceptor);
  for (auto& acceptor : acceptors_) begin(*acceptor);
  check_left();
}

std::future<void> WorkerThread::drain() { return post_leaving(drain_); }

// Posts a request whose result is ready when this worker accepts no more.
std::future<void> WorkerThread::post_leaving(Request& request) {
  accepts_no_more_ = std::promise<void>();
  std::future<void> left = accepts_no_more_.get_future();
  if (!post(request)) accepts_no_more_.set_value();
  return left;
}

void WorkerThread::check_left() {
  if (!have_left(acceptors_) || !have_left(old_acceptors_)) {
    worker_->timers().arm(*left_timer_, worker_->now_ms() + 1);
    return;
  }
  left_timer_->cancel();
  accepts_no_more_.set_value();
}

std::future<void> WorkerThread::end_moving_out(bool accepts) {
  accepts_again_ = accepts;
  ended_moving_out_ = std::promise<void>();
  std::future<void> ended = ended_moving_out_.get_future();
  if (!post(end_moving_out_)) ended_moving_out_.set_value();
  return ended;
}

std::future<StayCounts> WorkerThread::count_stays() {
  stays_counted_ = std::promise<StayCounts>();
  std::future<StayCounts> counted = stays_counted_.get_future();
  if (!post(count_stays_)) stays_counted_.set_value(StayCounts{});
  return counted;
}

void WorkerThread::resume(MovingSession session, bool stays) {
  auto arrival = std::make_unique<Arrival>();
  arrival->run = [](Message& m, Worker&) {
    const std::unique_ptr<Arrival> self(static_cast<Arrival*>(&m));
    const auto find = [&self](std::string_view name) -> ClientAcceptor* {
      const Acceptors& acceptors = self->thread->acceptors_;
      const auto found = std::find_if(acceptors.begin(), acceptors.end(),
                                      [&](const auto& each) { return each->listener().config->name == name; });
      return found != acceptors.end() ? found->get() : nullptr;
    };
    if (ClientAcceptor* const acceptor = find(self->session.listeners[0])) {
      acceptor->resume(std::move(self->session), find, self->stays);
    }
    self->thread->arriving_.fetch_sub(1, std::memory_order_release);
  };
  arrival->thread = this;
  arrival->session = std::move(session);
  arrival->stays = stays;
  arriving_.fetch_add(1, std::memory_order_relaxed);
  if (post(*arrival)) {
    (void)arrival.release();
  } else {
    arriving_.fetch_sub(1, std::memory_order_relaxed);
  }
}

bool WorkerThread::list_connections(std::shared_ptr<ConnectionTable> table) {
  {
    const std::lock_guard lock(worker_mutex_);
    next_table_ = std::move(table);
  }
  return listing_.exchange(true, std::memory_order_acq_rel) || post(list_);
}

// False if the worker has ended.
bool WorkerThread::post(Message& message) {
  std::lock_guard lock(worker_mutex_);
  if (!worker_) return false;
  worker_->post(message);
  // The thread of the admin listener has a worker of its own: its ring must not name this one's after the lock.
  if (Worker* const sender = Worker::current()) sender->ring().submit();
  return true;
}

void WorkerThread::main(WorkerGeneration first) {
  pthread_setname_np(pthread_self(), absl::StrCat("worker ", options_.index).c_str());
  auto worker = Worker::open(options_);
  if (!worker.ok()) {
    for (const auto& sockets : first.sockets) {
      for (const ListenSocket& each : sockets) ::close(each.fd);
    }
    stopped_.store(true, std::memory_order_release);
    ready_.set_value(worker.status());
    return;
  }
  {
    std::lock_guard lock(worker_mutex_);
    worker_ = std::move(*worker);
  }
  overload_ = std::make_unique<WorkerOverload>(shared_.overload, first.counters->gauges->overload, shared_.workers,
                                               options_.index);
  worker_->observe_turns([](void* self, uint64_t busy_ms) { static_cast<WorkerThread*>(self)->note_turn(busy_ms); },
                         this);
  handshakers_ = std::make_unique<HandshakerServices>(*worker_, shared_.lookup_threads);
  http_ = std::make_unique<HttpWorker>(
      HttpWorker::Context{*worker_, *handshakers_, shared_.body_file, shared_.stopping, *overload_});
  unused_timer_ = std::make_unique<Timer>(
      [](void* self) {
        auto* const thread = static_cast<WorkerThread*>(self);
        thread->worker_->defer([](void* deferred) { static_cast<WorkerThread*>(deferred)->destroy_unused(); }, thread);
      },
      this);
  applied_timer_ = std::make_unique<Timer>([](void* self) { static_cast<WorkerThread*>(self)->check_applied(); }, this);
  left_timer_ = std::make_unique<Timer>([](void* self) { static_cast<WorkerThread*>(self)->check_left(); }, this);
  lister_ = std::make_unique<ConnectionLister>(
      *worker_, options_.index,
      [](void* self, absl::FunctionRef<void(ClientAcceptor&)> function) {
        auto* const thread = static_cast<WorkerThread*>(self);
        for (Acceptors* const each : {&thread->acceptors_, &thread->old_acceptors_}) {
          for (auto& acceptor : *each) function(*acceptor);
        }
      },
      this);
  adopt(std::move(first));
  ready_.set_value(absl::OkStatus());
  {
    KeySigner::Desk signatures(*worker_);
    worker_->run();
    drain_timer_.reset();
    unused_timer_.reset();
    applied_timer_.reset();
    left_timer_.reset();
    lister_.reset();
    update_counters();
    acceptors_.clear();
    old_acceptors_.clear();
    checks_.clear();
    old_checks_.clear();
    http_.reset();
    upstreams_.clear();
    handshakers_.reset();
  }
  update_gauges(*worker_, *counters_->gauges);
  // Destroyed here and not after the join, because only the thread that opened a ring may use it.
  std::lock_guard lock(worker_mutex_);
  worker_.reset();
  stopped_.store(true, std::memory_order_release);
}

// ---- Generations ----

// Until their cancels are complete, replaced acceptors take connections. A client that connects after the reload is
// reported must get the new configuration.
void WorkerThread::check_applied() {
  if (have_left(old_acceptors_)) return applied_.set_value();
  worker_->timers().arm(*applied_timer_, worker_->now_ms() + 1);
}

void WorkerThread::adopt(WorkerGeneration next) {
  const bool is_first = std::exchange(counters_, next.counters) == nullptr;
  const WorkerUpstreams before = std::exchange(upstreams_, upstreams_of(next));
  replace_checks(before);
  replace_acceptors(next);
  if (!is_first) worker_->timers().arm(*unused_timer_, worker_->now_ms() + kUnusedPollMs);
}

WorkerUpstreams WorkerThread::upstreams_of(const WorkerGeneration& next) {
  absl::flat_hash_map<const UpstreamState*, std::shared_ptr<WorkerUpstream>> known;
  for (const auto& each : upstreams_) known.emplace(each->state.get(), each);
  WorkerUpstreams upstreams;
  for (size_t i = 0; i < next.upstreams.size(); ++i) {
    const auto same = known.find(next.upstreams[i].get());
    if (same != known.end()) {
      upstreams.push_back(same->second);
      continue;
    }
    upstreams.push_back(std::make_shared<WorkerUpstream>(next.upstreams[i], options_.index, *next.counters, i));
    if (!next.upstreams[i]->config().adaptive_concurrency) continue;
    const auto changed = std::find_if(upstreams_.begin(), upstreams_.end(), [&](const auto& each) {
      return each->state->config().name == next.upstreams[i]->config().name;
    });
    if (changed != upstreams_.end()) upstreams.back()->learned = (*changed)->learned;
  }
  return upstreams;
}

// Each upstream is checked by one worker only, because one check per endpoint is enough.
void WorkerThread::replace_checks(const WorkerUpstreams& before) {
  const absl::flat_hash_set<std::shared_ptr<WorkerUpstream>> known(before.begin(), before.end());
  absl::flat_hash_map<const WorkerUpstream*, Checks> old;
  for (Checks& each : std::exchange(checks_, {})) old.emplace(each.upstream.get(), std::move(each));
  for (size_t i = 0; i < upstreams_.size(); ++i) {
    const auto same = old.find(upstreams_[i].get());
    if (same != old.end()) {
      checks_.push_back(std::move(same->second));
      old.erase(same);
    } else if (i % shared_.workers == options_.index && upstreams_[i]->state->config().health_check &&
               !known.contains(upstreams_[i])) {
      checks_.push_back({upstreams_[i], std::make_unique<HealthChecker>(*http_, upstreams_[i]->balancer)});
      checks_.back().checker->start();
    }
  }
  for (auto& [upstream, each] : old) {
    each.checker->close();
    old_checks_.push_back(std::move(each));
  }
}

void WorkerThread::replace_acceptors(const WorkerGeneration& next) {
  Acceptors old = std::exchange(acceptors_, {});
  uint64_t backlogs = 0;
  size_t sockets = 0;
  for (size_t i = 0; i < next.listeners.size(); ++i) {
    if (next.groups->role(i) == config::AddressGroups::Role::kShares) continue;
    const config::Listener& listener = *next.listeners[i]->config;
    const size_t addresses = listener.addresses.size();
    backlogs += uint64_t{listener.backlog} * addresses * shared_.workers;
    sockets += addresses * shared_.workers;
  }
  for (size_t i = 0; i < next.listeners.size(); ++i) {
    const std::shared_ptr<ListenerState>& listener = next.listeners[i];
    const auto same =
        std::find_if(old.begin(), old.end(), [&](const auto& each) { return each->shared_listener() == listener; });
    const bool is_new = same == old.end();
    if (!is_new) {
      acceptors_.push_back(std::move(*same));
      old.erase(same);
    } else {
      const ClientAcceptor::Context context{*worker_,
                                            shared_.global_connections,
                                            listener,
                                            upstreams_,
                                            *handshakers_,
                                            next.counters->listeners[i],
                                            next.counters->http_listeners[i],
                                            next.counters->latencies[i],
                                            shared_.descriptor_room,
                                            /*other_backlogs=*/0,
                                            /*sockets=*/1,
                                            next.counters->resets,
                                            next.rate_limits,
                                            *overload_,
                                            shared_address_of(next, i)};
      std::unique_ptr<SessionFactory> factory;
      AccessLogTarget log = access_log_of(next, i);
      if (listener->config->http) {
        factory = std::make_unique<HttpSessionFactory>(context, *http_, std::move(log));
      } else {
        factory = std::make_unique<L4SessionFactory>(*listener->config, std::move(log), next.rate_limits);
      }
      acceptors_.push_back(std::make_unique<ClientAcceptor>(context, std::move(factory), next.sockets[i]));
    }
    acceptors_.back()->set_others(backlogs - listener->config->backlog, static_cast<uint32_t>(sockets));
    if (is_new) acceptors_.back()->start();
  }
  set_shared_addresses(next);
  SocketInodes kept;
  for (const auto& of_listener : next.sockets) {
    for (const ListenSocket& each : of_listener) kept.insert(socket_inode(each.fd));
  }
  for (auto& each : old) retire(std::move(each), kept);
}

// Null if the listener does not share its addresses.
std::shared_ptr<SharedAddress> WorkerThread::shared_address_of(const WorkerGeneration& next, size_t index) {
  if (next.groups->role(index) == config::AddressGroups::Role::kAlone) return nullptr;
  std::shared_ptr<SharedAddress>& shared = shared_addresses_[next.groups->key_of(index)];
  if (!shared) shared = std::make_shared<SharedAddress>(&ListenerChoice::start);
  return shared;
}

// Connections whose listener is not known yet get one of this generation, wherever they were accepted.
void WorkerThread::set_shared_addresses(const WorkerGeneration& next) {
  absl::flat_hash_map<std::string_view, std::vector<SharedAddress::Sharer>> sharers;
  for (size_t i = 0; i < next.listeners.size() && !shared_addresses_.empty(); ++i) {
    sharers[next.groups->key_of(i)].push_back({acceptors_[i].get(), &*next.listeners[i]->config});
  }
  absl::erase_if(shared_addresses_, [&](const auto& each) {
    const auto& [key, shared] = each;
    const auto now = sharers.find(key);
    shared->set(now == sharers.end() ? std::vector<SharedAddress::Sharer>() : now->second);
    return shared.use_count() == 1;
  });
}

AccessLogTarget WorkerThread::access_log_of(const WorkerGeneration& next, size_t index) {
  const config::Listener& listener = *next.listeners[index]->config;
  const config::AccessLog* const log = listener.access_log();
  if (!log || !config::names_otlp(log->file)) return next.access_logs.empty() ? nullptr : next.access_logs[index];
  const auto collector = std::find_if(upstreams_.begin(), upstreams_.end(), [&](const auto& each) {
    return each->state->config().name == config::otlp_upstream(log->file);
  });
  SLUICE_CHECK(collector != upstreams_.end());
  return std::unique_ptr<AccessRecordSink>(std::make_unique<OtlpAccessLog>(
      *http_, http_->http_upstream(*collector), *log, next.counters->listeners[index], listener.name));
}

// Its sessions move to the acceptor of the listener that has its name now, if there is one that would have admitted
// them. So do those that are still to move to it.
void WorkerThread::retire(std::unique_ptr<ClientAcceptor> old, const SocketInodes& kept) {
  const config::Listener& was = *old->listener().config;
  const auto successor = std::find_if(acceptors_.begin(), acceptors_.end(), [&](const auto& each) {
    const config::Listener& now = *each->listener().config;
    return now.name == was.name && admits_the_same(was, now);
  });
  ClientAcceptor* const leaving = old.get();
  old_acceptors_.push_back(std::move(old));
  for (auto& each : old_acceptors_) {
    if (each.get() != leaving && each->successor() != leaving) continue;
    if (successor != acceptors_.end()) {
      each->hand_over(**successor, kept);
    } else {
      each->stop_accepting(kept);
      each->drain();
    }
  }
}

// Called after what this turn has ended is destroyed. What is still in use is checked again later.
void WorkerThread::destroy_unused() {
  std::erase_if(old_acceptors_, [](const auto& acceptor) { return acceptor->idle(); });
  std::erase_if(old_checks_, [](const Checks& each) { return each.checker->idle(); });
  const bool closed = http_->close_unused();
  if (old_acceptors_.empty() && old_checks_.empty() && closed) return;
  worker_->timers().arm(*unused_timer_, worker_->now_ms() + kUnusedPollMs);
}

void WorkerThread::update_counters() {
  update_gauges(*worker_, *counters_->gauges);
  overload_->update_counters();
}

// ---- The end ----

void WorkerThread::begin_drain() {
  if (drain_timer_) return;
  for (Acceptors* const each : {&acceptors_, &old_acceptors_}) {
    for (auto& acceptor : *each) {
      acceptor->stop_accepting();
      acceptor->drain();
    }
  }
  drain_timer_ = std::make_unique<Timer>([](void* self) { static_cast<WorkerThread*>(self)->stop_if_idle(); }, this);
  stop_if_idle();
}

void WorkerThread::stop_if_idle() {
  bool idle = all_idle(acceptors_) && all_idle(old_acceptors_);
  if (idle) {
    for (Checks& each : checks_) each.checker->close();
    http_->close();  // closes what only sessions needed
    const auto done = [](const Checks& each) { return each.checker->idle(); };
    idle = http_->idle() && std::all_of(checks_.begin(), checks_.end(), done) &&
           std::all_of(old_checks_.begin(), old_checks_.end(), done);
  }
  if (idle) {
    handshakers_->close();  // closes what only upstream connections and checks needed
    idle = handshakers_->idle();
  }
  if (idle) {
    if (left_timer_->armed()) check_left();  // No timer runs after stop().
    return worker_->stop();
  }
  worker_->timers().arm(*drain_timer_, worker_->now_ms() + kDrainPollMs);
}

}  // namespace sluice
