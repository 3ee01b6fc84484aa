#include "proxy/xds/xds_client.h"

#include <pthread.h>
#include <signal.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "net/thread_priority.h"
#include "proxy/log/run_log.h"
#include "proxy/xds/resource_cache.h"

namespace sluice::xds {
namespace {

constexpr size_t kBudgetBytes = size_t{128} << 20;
constexpr uint16_t kRingEntries = 4;

int64_t unix_ms_now() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::milliseconds>(now).count();
}

std::string cache_file(const std::string& folder) { return absl::StrCat(folder, "/resources"); }

}  // namespace

absl::StatusOr<std::unique_ptr<XdsClient>> XdsClient::start(Options options) {
  absl::StatusOr<std::unique_ptr<Bootstrap>> bootstrap =
      read_bootstrap(options.bootstrap, absl::StrCat(options.cache_folder, "/bootstrap"));
  if (!bootstrap.ok()) return bootstrap.status();
  std::unique_ptr<XdsClient> client(new XdsClient(std::move(options), *std::move(bootstrap)));
  client->read_cache();
  // The control thread handles the signals.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  client->thread_ = std::thread([self = client.get()] { self->main(); });
  if (client->bootstrap_->of_health) {
    client->health_ = std::make_unique<HealthThread>(
        *client->bootstrap_, absl::StrCat(client->options_.cache_folder, "/health"), client->counters_.health);
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return client;
}

XdsClient::XdsClient(Options options, std::unique_ptr<Bootstrap> bootstrap)
    : options_(std::move(options)),
      bootstrap_(std::move(bootstrap)),
      dump_(*bootstrap_, unix_ms_now()),
      maker_(*bootstrap_, {.accepts_unsupported = options_.accepts_unsupported,
                           .secret_folder = options_.cache_folder,
                           .check = options_.check}) {}

XdsClient::~XdsClient() {
  health_.reset();
  feed_.close();
  if (!thread_.joinable()) return;
  struct Stop : Message {
    XdsClient* client;
  } stop;
  stop.client = this;
  stop.run = [](Message& message, Worker&) { static_cast<Stop&>(message).client->stop(); };
  {
    const std::lock_guard lock(worker_mutex_);
    if (worker_) worker_->post(stop);
  }
  thread_.join();
}

void XdsClient::read_cache() {
  absl::StatusOr<ResourceStore> cached = load_resources(cache_file(options_.cache_folder));
  if (!cached.ok()) {
    log_line(LogLevel::kWarning, absl::StrCat("xds: ", cached.status().message()));
    cached = ResourceStore();
  }
  const bool is_cached = !cached->empty();
  if (is_cached) {
    ResourceKeys blamed;
    if (const absl::Status applied = apply(*cached, blamed); !applied.ok()) {
      log_lines(LogLevel::kWarning,
                absl::StrCat("xds: what ", cache_file(options_.cache_folder), " has is not used: ", applied.message()));
      *cached = ResourceStore();
    } else {
      counters_.from_cache.set(1);
      log_line(LogLevel::kInfo,
               absl::StrCat("xds: starts with the last good resources, of ", cache_file(options_.cache_folder)));
    }
  }
  subscription_ = std::make_unique<Subscription>(
      bootstrap_->node, bootstrap_->is_delta, *std::move(cached), monotonic_ms(),
      [this](const ResourceStore& candidate, ResourceKeys& blamed) {
        const absl::Status applied = apply(candidate, blamed);
        if (!applied.ok()) return applied;
        if (const absl::Status saved = save_resources(cache_file(options_.cache_folder), candidate); !saved.ok()) {
          log_line(LogLevel::kWarning,
                   absl::StrCat("xds: the resources are not kept for the next start: ", saved.message()));
        }
        return applied;
      },
      counters_);
}

absl::Status XdsClient::apply(const ResourceStore& candidate, ResourceKeys& blamed) {
  auto config = maker_.make(candidate, monotonic_ms(), blamed);
  if (!config.ok()) return config.status();
  if (const absl::Status offered = feed_.offer(*std::move(config)); !offered.ok()) return offered;
  maker_.commit();
  clusters_.reset();
  dump_.publish(maker_.in_use(), candidate, maker_.upstream_names(), unix_ms_now());
  counters_.waiting.set(maker_.wait().size());
  counters_.wait_timeouts.set(maker_.wait().timeouts());
  // Nothing waits before the thread runs, as nothing is in use.
  if (wait_) wait_->cancel();
  if (const std::optional<uint64_t> due = maker_.wait().due_ms(); due && wait_) worker_->timers().arm(*wait_, *due);
  if (stream_) begin_load_reports();
  return absl::OkStatus();
}

void XdsClient::end_wait() {
  if (stopping_) return;
  ResourceKeys blamed;
  if (const absl::Status applied = apply(subscription_->store(), blamed); !applied.ok()) {
    log_lines(LogLevel::kError, absl::StrCat("xds: an update that has waited for clusters cannot be used: ",
                                             applied.message(), "; what is in use stays"));
  }
}

void XdsClient::watch_lifetimes() {
  expiry_->cancel();
  const std::optional<uint64_t> due = subscription_->due_ms();
  if (due) worker_->timers().arm(*expiry_, std::max(*due, worker_->now_ms() + 1));
}

void XdsClient::expire() {
  if (stopping_) return;
  subscription_->expire(monotonic_ms());
  watch_lifetimes();
}

// ---- The thread ----

void XdsClient::main() {
  pthread_setname_np(pthread_self(), "xds");
  give_way_to_workers();
  Worker::Options options;
  options.budget_bytes = kBudgetBytes;
  options.ring_entries = kRingEntries;
  options.max_sockets = 16;
  auto worker = Worker::open(options);
  if (!worker.ok()) {
    log_line(LogLevel::kError, absl::StrCat("xds: the client cannot run: ", worker.status().message()));
    return feed_.close();
  }
  {
    const std::lock_guard lock(worker_mutex_);
    worker_ = std::move(*worker);
  }
  handshakers_ = std::make_unique<HandshakerServices>(*worker_);
  begin();
  worker_->run();
  wait_.reset();
  expiry_.reset();
  reporter_.reset();
  stream_.reset();
  handshakers_.reset();
  // Destroyed here and not after the join, because only the thread that opened a ring may use it.
  const std::lock_guard lock(worker_mutex_);
  worker_.reset();
}

void XdsClient::begin() {
  stream_ = std::make_unique<ServiceStream>(
      *worker_, *handshakers_,
      ServiceStream::Options{.service = bootstrap_->of_service,
                             .path = bootstrap_->is_delta ? kDeltaPath : kStatePath,
                             .label = "control plane",
                             .consequence = "; what it has sent stays in effect, and it is connected to again"},
      counters_.stream, static_cast<ServiceStream::User&>(*this));
  wait_ = std::make_unique<Timer>([](void* self) { static_cast<XdsClient*>(self)->end_wait(); }, this);
  expiry_ = std::make_unique<Timer>([](void* self) { static_cast<XdsClient*>(self)->expire(); }, this);
  watch_lifetimes();
  stream_->connect();
  begin_load_reports();
}

// The service that the bootstrap file names gets the load of all clusters. Without one, the control plane gets that of
// the clusters that say so.
void XdsClient::begin_load_reports() {
  if (reporter_ || stopping_) return;
  const bool for_all = bootstrap_->of_loads.has_value();
  if (!for_all && !wants_reports(*bootstrap_, maker_.in_use())) return;
  reporter_ = std::make_unique<LoadReporter>(
      *worker_, *handshakers_,
      LoadReporter::Options{.service = for_all ? *bootstrap_->of_loads : bootstrap_->of_service,
                            .node = write_node(bootstrap_->node, {kSendsAllClusters}),
                            .only_wanted = !for_all,
                            .table = [this]() -> const ClusterTable& { return clusters(); },
                            .on_ended = [this] { stop_worker(); }},
      loads_, counters_);
  reporter_->start();
}

const ClusterTable& XdsClient::clusters() {
  if (!clusters_) clusters_ = cluster_table(*bootstrap_, maker_.in_use(), *maker_.upstream_names());
  return *clusters_;
}

void XdsClient::stop() {
  stopping_ = true;
  if (reporter_) reporter_->stop();
  if (stream_) stream_->stop();
  stop_worker();
}

void XdsClient::stop_worker() {
  if ((!stream_ || stream_->ended()) && (!reporter_ || reporter_->ended())) worker_->stop();
}

void XdsClient::on_open() {
  subscription_->begin([this](std::string message) { stream_->send(message); });
}

absl::Status XdsClient::on_message(std::string_view message) {
  const absl::Status taken = subscription_->on_message(message, monotonic_ms());
  watch_lifetimes();
  return taken;
}

void XdsClient::on_lost() {
  subscription_->end();
  if (stopping_) stop_worker();
}

}  // namespace sluice::xds
