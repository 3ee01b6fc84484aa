#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "proxy/admin/admin_pages.h"
#include "proxy/common/connection_limits.h"
#include "proxy/listener/connection_table.h"
#include "proxy/server/earlier_counters.h"
#include "proxy/server/process_view.h"
#include "proxy/server/worker_thread.h"

namespace sluice {

/// The pages of the admin listener about the process. The control thread publishes what there is to show; only it and
/// the thread of the admin listener share a lock.
class ProcessPages final : public AdminPages {
 public:
  /// What exists as long as the process. All of it may be read on any thread.
  struct Process {
    const ControlCounters& control;
    AdminCounters& admin;
    const ConnectionLimit& connections;
    const std::atomic<bool>& stopping;
    const std::vector<std::unique_ptr<WorkerThread>>& workers;
    const OverloadState& overload;
  };
  explicit ProcessPages(const Process& process) : process_(process) {}

  /// For the control thread.
  void publish(std::shared_ptr<const ProcessView> view);

  // AdminPages
  bool is_public(const AdminRequest& request) override;
  bool needs_figures(const AdminRequest& request) override;
  void request_figures(const AdminRequest& request) override;
  bool shares_figures(const AdminRequest& request) override;
  bool has_figures() override;
  AdminResponse respond(const AdminRequest& request) override;

 private:
  struct Page {
    std::string_view path;
    std::string_view text;  ///< What it shows, for the list of pages.
    bool needs_figures;
    std::string_view methods;  ///< Those that it takes, as in the field Allow.
    AdminResponse (ProcessPages::*respond)(const AdminRequest& request);
  };
  static const Page* find(std::string_view path);
  static std::span<const Page> pages();

  std::shared_ptr<const ProcessView> view() const;
  bool responds(size_t worker) const;
  std::string silent_workers() const;
  bool has_part(size_t worker) const;
  static std::optional<ConnectionQuery> table_for(const AdminRequest& request);
  AdminResponse index(const AdminRequest& request);
  AdminResponse healthz(const AdminRequest& request);
  AdminResponse readyz(const AdminRequest& request);
  AdminResponse metrics(const AdminRequest& request);
  AdminResponse envoy_stats(const AdminRequest& request);
  AdminResponse latency(const AdminRequest& request);
  AdminResponse config(const AdminRequest& request);
  AdminResponse config_dump(const AdminRequest& request);
  AdminResponse clusters(const AdminRequest& request);
  AdminResponse listeners(const AdminRequest& request);
  AdminResponse generations(const AdminRequest& request);
  AdminResponse upstreams(const AdminRequest& request);
  AdminResponse endpoint(const AdminRequest& request);
  AdminResponse connections(const AdminRequest& request);
  AdminResponse pools(const AdminRequest& request);
  AdminResponse memory(const AdminRequest& request);
  AdminResponse errors(const AdminRequest& request);
  AdminResponse profile(const AdminRequest& request);
  AdminResponse log_level(const AdminRequest& request);

  const Process process_;
  mutable std::mutex mutex_;
  std::shared_ptr<const ProcessView> view_;  // Guarded by mutex_.
  EarlierCounters earlier_;
  const std::chrono::steady_clock::time_point began_ = std::chrono::steady_clock::now();
  std::shared_ptr<ConnectionTable> table_;  // That was requested last, if its request needed one.
  std::vector<uint64_t> snapshots_;         // By worker: their number at the last request for figures.
};

}  // namespace sluice
