// The reload of a running process: another configuration takes effect, and the parts of earlier ones live on until
// their connections have ended.

#include <malloc.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "proxy/config/load/print.h"
#include "proxy/http/proxy/body_file.h"
#include "proxy/listener/listener_state.h"
#include "proxy/log/run_log.h"
#include "proxy/resolve/resolver.h"
#include "proxy/server/config_files.h"
#include "proxy/server/reload_words.h"
#include "proxy/server/server.h"
#include "proxy/server/worker_thread.h"

namespace sluice {

namespace {

// Takes over the values of keys that are read at start only, with a warning for each that has changed.
void keep_until_restart(const config::Config& current, config::Config& next) {
  const auto keep = [](std::string_view key, const auto& old, auto& now) {
    if (old == now) return;
    log_line(LogLevel::kWarning,
             absl::StrCat("reload: `", key, "` has changed, but is read at start only: restart for it"));
    now = old;
  };
  keep("workers", current.workers, next.workers);
  keep("memory", current.memory, next.memory);
  keep("body_file", current.body_file, next.body_file);
  keep("user", current.user, next.user);
  keep("core_dumps", current.core_dumps, next.core_dumps);
  keep("sandbox", current.sandbox, next.sandbox);
}

}  // namespace

// Returns what has changed.
absl::StatusOr<std::string> Server::reload() {
  if (phase_ != Phase::kServing) {
    log_line(LogLevel::kWarning, "reload: ignored, because the process is draining");
    return absl::FailedPreconditionError("ignored, because the process is draining");
  }
  manager_.reloading();
  absl::StatusOr<std::string> changes = replace_generation();
  manager_.ready(changes.ok() ? status_line() : absl::StrCat(status_line(), "; the last reload failed, see the log"));
  if (!changes.ok()) {
    control_counters_.reload_failures.add();
    control_counters_.tls_reload_failures.add();
    std::string why(changes.status().message());
    if (generation_.config->sandbox && absl::StrContains(why, std::strerror(EACCES))) {
      absl::StrAppend(&why,
                      "\nwith `sandbox`, files can be opened only in folders that the configuration at the start "
                      "named; restart for others");
    }
    absl::StrAppend(&why, "\nnothing was changed: the previous configuration and files stay in use");
    log_lines(LogLevel::kError, absl::StrCat("reload: ", why));
    return absl::Status(changes.status().code(), why);
  }
  control_counters_.reloads.add();
  control_counters_.tls_reloads.add();
  watch_files();
  log_line(LogLevel::kInfo, absl::StrCat("reload: ", *changes));
  return changes;
}

void Server::watch_files() {
  if (!generation_.config->watch) {
    settled_ = std::chrono::steady_clock::time_point::max();
    return watch_.reset();
  }
  if (!watch_) {
    absl::StatusOr<std::unique_ptr<FileWatch>> opened = FileWatch::open();
    if (!opened.ok()) return log_line(LogLevel::kWarning, absl::StrCat("`watch`: ", opened.status().message()));
    watch_ = *std::move(opened);
  }
  std::vector<std::string> files = files_of(*generation_.config);
  files.insert(files.end(), options_.files.begin(), options_.files.end());
  if (!watch_->watch(files))
    log_line(LogLevel::kWarning, "`watch`: not all folders of the configuration's files can be watched");
}

// All or nothing: until the workers get their parts, each step may fail.
absl::StatusOr<std::string> Server::replace_generation() {
  absl::StatusOr<config::Config> loaded = options_.load ? options_.load(options_.files) : *generation_.config;
  if (!loaded.ok()) return loaded.status();
  keep_until_restart(*generation_.config, *loaded);
  resolver_.reset();  // The next generation takes over the addresses that it has found.
  absl::Cleanup stay = [this] {
    sockets_.keep_only(*generation_.config);
    (void)resolve_names(generation_);
    close_unused_logs();
  };
  Generation next(*std::move(loaded), generation_);
  absl::StatusOr<Preparation> prepared = prepare(next);
  if (!prepared.ok()) return prepared.status();
  if (absl::Status listening = sockets_.open(*next.config); !listening.ok()) return listening;
  if (absl::Status resolving = resolve_names(next); !resolving.ok()) return resolving;
  absl::StatusOr<AdminPreparation> admin = prepare_admin(*next.config);
  if (!admin.ok()) {
    drop_admin({});
    return admin.status();
  }
  absl::StatusOr<std::vector<WorkerGeneration>> parts = for_workers(next, &generation_, *prepared);
  if (!parts.ok()) {
    drop_admin(*admin);
    return parts.status();
  }
  std::move(stay).Cancel();

  const std::vector<std::optional<size_t>> logs = access_log_of_listener_;
  install(next, *std::move(prepared));
  // Before the workers stop accepting: they take what has arrived, and then no socket must be left in which more waits.
  sockets_.keep_only(*next.config);
  std::vector<std::future<void>> applied;
  for (unsigned i = 0; i < worker_count_; ++i) {
    applied.push_back(workers_[i]->apply(std::move((*parts)[i]), body_file_.get()));
  }
  for (std::future<void>& each : applied) each.wait();
  const config::Snapshot<config::Config> before = generation_.config;
  const ProcessView::Applied now = begin_generation(next.config);
  Generation old = std::exchange(generation_, std::move(next));
  ProcessView::Applied old_applied = std::exchange(applied_, now);
  end_endpoint_changes();
  apply_admin(*std::move(admin), &*before);
  retire(std::move(old), std::move(old_applied), logs);
  bound_generations();
  global_connections_.set_limit(max_connections());
  const config::Config& config = *generation_.config;
  memory_watch_->configure(config.overload, config.memory.budget_of(worker_count_));
  log_listeners(&*before);
  const std::string files = reloaded_files(config);
  return absl::StrCat("configuration applied: ", describe_changes(*before, config), files.empty() ? "" : "; ", files);
}

// A reload ends the changes that were made without `keep=true`.
void Server::end_endpoint_changes() {
  size_t ended = 0;
  for (const auto& upstream : generation_.upstreams) ended += upstream->changes().end_unkept(monotonic_ms());
  if (ended == 0) return;
  log_line(LogLevel::kInfo, absl::StrCat("reload: ", ended, " changed endpoints are as configured again"));
}

// Keeps what the current generation does not share, so that its destruction does not delay a worker.
void Server::retire(Generation old, ProcessView::Applied applied,
                    const std::vector<std::optional<size_t>>& access_logs) {
  Retired retired{.applied = std::move(applied)};
  for (auto& listener : old.listeners) {
    if (!generation_.has(*listener)) retired.listeners.push_back(std::move(listener));
  }
  const absl::flat_hash_set<std::shared_ptr<UpstreamState>> kept(generation_.upstreams.begin(),
                                                                 generation_.upstreams.end());
  for (auto& upstream : old.upstreams) {
    if (!kept.contains(upstream)) retired.upstreams.push_back(std::move(upstream));
  }
  for (const std::optional<size_t>& log : access_logs) {
    if (log) retired.access_logs.push_back(*log);
  }
  retired_.push_back(std::move(retired));
  publish_view();
  destroy_unused();
  close_unused_logs();
}

// Makes the connections of the oldest generations leave if clients still use too many.
void Server::bound_generations() {
  const config::Config& config = *generation_.config;
  const size_t bound = config.reload.max_generations;
  const auto excess = [&] {
    const auto used = static_cast<size_t>(
        std::count_if(retired_.begin(), retired_.end(), [](const Retired& each) { return each.has_clients(); }));
    return used + 1 > bound ? used + 1 - bound : 0;
  };
  if (excess() > 0) {
    leave({}, /*now=*/false);  // Workers look for unused parts only now and then.
    destroy_unused();
  }
  size_t left = excess();
  for (Retired& oldest : retired_) {
    if (left == 0) break;
    if (!oldest.has_clients()) continue;
    --left;
    if (std::exchange(oldest.draining, true)) continue;
    log_line(LogLevel::kWarning, absl::StrCat("reload: more than ", bound,
                                              " configurations are in use (reload.max_generations): the connections "
                                              "of the oldest one are drained, and reset after ",
                                              config::print_duration(config.shutdown_timeout)));
    control_counters_.configurations_drained.add();
    oldest.end_at = std::chrono::steady_clock::now() + config.shutdown_timeout;
    leave(oldest, /*now=*/false);
    publish_view();
  }
}

// Connections to endpoints do not count: when no client needs them, they end by themselves.
bool Server::Retired::has_clients() const {
  return std::any_of(listeners.begin(), listeners.end(), [](const auto& each) { return each.use_count() > 1; });
}

void Server::end_overdue(std::chrono::steady_clock::time_point now) {
  if (stopping_) return;  // All connections leave.
  for (Retired& each : retired_) {
    if (now < each.end_at) continue;
    each.end_at = std::chrono::steady_clock::time_point::max();
    leave(each, /*now=*/true);
  }
}

void Server::leave(const Retired& retired, bool now) {
  std::vector<const ListenerState*> listeners;
  for (const auto& listener : retired.listeners) listeners.push_back(listener.get());
  std::vector<std::future<void>> begun;
  for (auto& worker : workers_) begun.push_back(worker->leave(listeners, now));
  for (std::future<void>& each : begun) each.wait();
}

void Server::destroy_unused() {
  const auto unused = [](const auto& state) { return state.use_count() == 1; };
  const size_t destroyed = std::erase_if(retired_, [&](const Retired& each) {
    return std::all_of(each.listeners.begin(), each.listeners.end(), unused) &&
           std::all_of(each.upstreams.begin(), each.upstreams.end(), unused);
  });
  if (destroyed > 0) {
    close_unused_logs();
    log_resets();
    publish_view();
    if (retired_.empty()) malloc_trim(0);  // As after a crowd: see ClientAcceptor.
  }
  if (workers_started_) control_counters_.configurations.set(1 + retired_.size());
}

void Server::close_unused_logs() {
  std::vector<size_t> used;
  for (const std::optional<size_t>& log : access_log_of_listener_) {
    if (log) used.push_back(*log);
  }
  for (const Retired& each : retired_) used.insert(used.end(), each.access_logs.begin(), each.access_logs.end());
  access_logs_->keep_only(used);
}

}  // namespace sluice
