#include "proxy/xds/xds_client.h"

#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "net/thread_priority.h"
#include "proxy/log/run_log.h"
#include "proxy/tls/tls_files.h"
#include "proxy/xds/resource_cache.h"

namespace sluice::xds {
namespace {

constexpr size_t kBudgetBytes = size_t{128} << 20;
constexpr uint16_t kRingEntries = 4;
// Between two connections: Envoy's defaults (JitteredExponentialBackOffStrategy of its gRPC streams).
constexpr uint64_t kFirstRetryMs = 500, kLastRetryMs = 30'000;

std::string cache_file(const std::string& folder) { return absl::StrCat(folder, "/resources"); }

std::string describe_service(const UpstreamState& service, uint32_t endpoint) {
  return absl::StrCat("xds: control plane ", service.describe(endpoint));
}

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
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return client;
}

XdsClient::XdsClient(Options options, std::unique_ptr<Bootstrap> bootstrap)
    : options_(std::move(options)),
      bootstrap_(std::move(bootstrap)),
      maker_(*bootstrap_, {.accepts_unsupported = options_.accepts_unsupported,
                           .secret_folder = options_.cache_folder,
                           .check = options_.check}),
      random_(static_cast<uint64_t>(getpid()) ^ monotonic_ms()) {}

XdsClient::~XdsClient() {
  feed_.close();
  if (!thread_.joinable()) return;
  struct Stop : Message {
    XdsClient* client;
  } stop;
  stop.client = this;
  stop.run = [](Message& message, Worker& worker) {
    XdsClient& self = *static_cast<Stop&>(message).client;
    self.stopping_ = true;
    if (self.connection_ != nullptr) return self.connection_->end("the process stops");
    worker.stop();
  };
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
    if (const absl::Status applied = apply(*cached); !applied.ok()) {
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
      [this](const ResourceStore& candidate) {
        const absl::Status applied = apply(candidate);
        if (!applied.ok()) return applied;
        if (const absl::Status saved = save_resources(cache_file(options_.cache_folder), candidate); !saved.ok()) {
          log_line(LogLevel::kWarning,
                   absl::StrCat("xds: the resources are not kept for the next start: ", saved.message()));
        }
        return applied;
      },
      counters_);
}

absl::Status XdsClient::apply(const ResourceStore& candidate) {
  absl::StatusOr<config::Config> config = maker_.make(candidate, monotonic_ms());
  if (!config.ok()) return config.status();
  if (const absl::Status offered = feed_.offer(*std::move(config)); !offered.ok()) return offered;
  maker_.commit();
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  dump_.publish(maker_.in_use(), candidate, std::chrono::duration_cast<std::chrono::milliseconds>(now).count());
  counters_.waiting.set(maker_.wait().size());
  counters_.wait_timeouts.set(maker_.wait().timeouts());
  // Nothing waits before the thread runs, as nothing is in use.
  if (wait_) wait_->cancel();
  if (const std::optional<uint64_t> due = maker_.wait().due_ms(); due && wait_) worker_->timers().arm(*wait_, *due);
  return absl::OkStatus();
}

void XdsClient::end_wait() {
  if (stopping_) return;
  if (const absl::Status applied = apply(subscription_->store()); !applied.ok()) {
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
  begin_service();
  connect();
  worker_->run();
  resolver_.reset();
  retry_.reset();
  wait_.reset();
  expiry_.reset();
  view_.reset();
  services_.reset();
  handshakers_.reset();
  // Destroyed here and not after the join, because only the thread that opened a ring may use it.
  const std::lock_guard lock(worker_mutex_);
  worker_.reset();
}

void XdsClient::begin_service() {
  const config::Snapshot<config::Config>& config = bootstrap_->of_service;
  service_ = std::make_shared<UpstreamState>(config.part(config->upstreams.front()));
  services_ = std::make_unique<AdsServices>(*worker_, *handshakers_, *service_);
  view_ = std::make_unique<EndpointView>(service_->slots());
  retry_ = std::make_unique<Timer>([](void* self) { static_cast<XdsClient*>(self)->connect(); }, this);
  wait_ = std::make_unique<Timer>([](void* self) { static_cast<XdsClient*>(self)->end_wait(); }, this);
  expiry_ = std::make_unique<Timer>([](void* self) { static_cast<XdsClient*>(self)->expire(); }, this);
  watch_lifetimes();
  if (!Resolver::has_names(*config)) return;
  resolver_ = std::make_unique<Resolver>(Resolver::Upstreams{service_}, [] {});
  if (const absl::Status started = resolver_->start(); !started.ok()) {
    return log_line(LogLevel::kError, absl::StrCat("xds: ", started.message()));
  }
  resolver_->wait_for_first();
}

void XdsClient::connect() {
  if (stopping_) return;
  view_->refresh();
  const auto fail = [this](std::string why) {
    counters_.failures.add();
    if (std::exchange(last_failure_, why) != why) log_line(LogLevel::kWarning, absl::StrCat("xds: ", why));
    connect_later();
  };
  if (view_->present().empty()) return fail("the name of the control plane has no address");
  std::vector<FileWarning> warnings;
  // Read again each time, as certificates are renewed.
  absl::StatusOr<bssl::UniquePtr<SSL_CTX>> tls = read_tls_files_of(service_->config(), warnings);
  if (!tls.ok()) return fail(std::string(tls.status().message()));
  service_->tls.replace(*std::move(tls));
  endpoint_ = view_->present()[attempts_ % view_->present().size()];
  view_->hold(endpoint_);
  connection_ = new AdsConnection(*services_, *this, endpoint_, bootstrap_->is_delta ? kDeltaPath : kStatePath);
  connection_->begin();
}

// With full jitter, so that a fleet does not come back at once.
void XdsClient::connect_later() {
  const uint64_t most = std::min(kLastRetryMs, kFirstRetryMs << std::min<size_t>(attempts_, 6));
  ++attempts_;
  worker_->timers().arm(*retry_, worker_->now_ms() + 1 + random_.below(most));
}

void XdsClient::on_open(AdsConnection& connection) {
  counters_.connects.add();
  counters_.connected.set(1);
  log_line(LogLevel::kInfo, absl::StrCat(describe_service(*service_, endpoint_), ": connected"));
  last_failure_.clear();
  subscription_->begin([&connection](std::string message) { connection.send(message); });
}

absl::Status XdsClient::on_message(std::string_view message) {
  const absl::Status taken = subscription_->on_message(message, monotonic_ms());
  watch_lifetimes();
  if (taken.ok()) attempts_ = 0;
  return taken;
}

void XdsClient::on_lost(AdsConnection&, std::string_view why) {
  connection_ = nullptr;
  subscription_->end();
  const std::string service = describe_service(*service_, endpoint_);
  view_->let_go(endpoint_);
  counters_.connected.set(0);
  if (stopping_) return worker_->stop();
  counters_.failures.add();
  if (last_failure_ != why) {
    last_failure_ = std::string(why);
    log_line(LogLevel::kWarning,
             absl::StrCat(service, ": ", why, "; what it has sent stays in effect, and it is connected to again"));
  }
  connect_later();
}

}  // namespace sluice::xds
