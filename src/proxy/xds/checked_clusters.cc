#include "proxy/xds/checked_clusters.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "proxy/common/suggestions.h"
#include "proxy/log/run_log.h"

namespace sluice::xds {
namespace {

std::string start_of_line(std::string_view cluster) {
  return absl::StrCat("xds: health discovery: cluster ", config::in_quotes(cluster));
}

// The problem of the first check that has one; empty if all can be made.
std::string_view problem_of(const std::vector<std::shared_ptr<CheckSettings>>& settings) {
  for (const auto& each : settings) {
    if (!each->problem.empty()) return each->problem;
  }
  return {};
}

}  // namespace

void CheckedClusters::follow(const HealthSpecifier& specifier) {
  std::vector<Cluster> before = std::exchange(clusters_, {});
  std::unordered_multimap<std::string_view, Cluster*> by_name;
  for (Cluster& each : before) by_name.emplace(each.name, &each);
  checks_left_ = kMaxChecks;
  endpoints_ = unknown_ = too_many_ = 0;
  for (const HealthSpecifier::Cluster& wanted : specifier.clusters) {
    const auto known = by_name.extract(wanted.name);
    clusters_.push_back(make_cluster(wanted, known.empty() ? nullptr : known.mapped()));
  }
  for (Cluster& each : before) retire_all(each);
  Settings used;
  for (const Cluster& each : clusters_) used.insert(used.end(), each.settings.begin(), each.settings.end());
  maker_.keep_files(used);
  counters_.checked_endpoints.set(endpoints_);
  counters_.unknown_endpoints.set(unknown_);
  log_result();
}

CheckedClusters::Cluster CheckedClusters::make_cluster(const HealthSpecifier::Cluster& wanted, Cluster* before) {
  static const Settings none;
  const Settings& known = before != nullptr ? before->settings : none;
  Cluster made{.name = std::string(wanted.name), .settings = maker_.make_all(wanted, known), .localities = {}};
  const std::string_view problem = problem_of(made.settings);
  if (!problem.empty() && (before == nullptr || problem_of(known) != problem)) {
    log_lines(LogLevel::kWarning, absl::StrCat(start_of_line(made.name), " is not checked: ", problem,
                                               "; its endpoints are reported as unknown"));
  }
  ByBytes endpoints;
  for (Locality& locality : before != nullptr ? before->localities : made.localities) {
    for (Endpoint& each : locality.endpoints) endpoints.emplace(each.bytes, &each);
  }
  for (const HealthSpecifier::Locality& locality : wanted.localities) {
    Locality& to = made.localities.emplace_back(Locality{.place = std::string(locality.place), .endpoints = {}});
    for (const HealthSpecifier::Endpoint& each : locality.endpoints) {
      to.endpoints.push_back(make_endpoint(each, made.settings, problem.empty(), endpoints));
    }
  }
  return made;
}

CheckedClusters::Endpoint CheckedClusters::make_endpoint(const HealthSpecifier::Endpoint& wanted,
                                                         const Settings& settings, bool can_be_checked,
                                                         ByBytes& before) {
  Endpoint made{
      .bytes = std::string(wanted.bytes), .address = std::string(wanted.address), .problem = {}, .checks = {}};
  const auto known = before.extract(wanted.bytes);
  std::unique_ptr<EndpointChecks> checks;
  if (!known.empty()) {
    checks = std::move(known.mapped()->checks);
    made.problem = known.mapped()->problem;
  }
  if (can_be_checked && made.problem.empty() && checks_left_ < settings.size()) {
    ++too_many_;
  } else if (can_be_checked && made.problem.empty()) {
    give_checks(made, settings, std::move(checks));
  }
  retire(std::move(checks));
  if (made.checks) {
    checks_left_ -= settings.size();
    ++endpoints_;
  } else {
    ++unknown_;
  }
  return made;
}

void CheckedClusters::give_checks(Endpoint& endpoint, const Settings& settings,
                                  std::unique_ptr<EndpointChecks> before) {
  if (before && before->is_by(settings)) {
    endpoint.checks = std::move(before);
    return;
  }
  const absl::StatusOr<CheckTarget> target = read_check_target(endpoint.bytes);
  if (target.ok()) {
    endpoint.checks = std::make_unique<EndpointChecks>(worker_, *target, settings, before.get());
    endpoint.checks->start();
  } else {
    endpoint.problem = std::string(target.status().message());
    log_line(LogLevel::kWarning, absl::StrCat("xds: health discovery: an endpoint of cluster ",
                                              config::in_quotes(settings.front()->upstream.name),
                                              " is not checked: ", endpoint.problem, "; it is reported as unknown"));
  }
  retire(std::move(before));
}

void CheckedClusters::retire(std::unique_ptr<EndpointChecks> checks) {
  if (!checks) return;
  checks->close();
  ending_.push_back(std::move(checks));
}

void CheckedClusters::retire_all(Cluster& cluster) {
  for (Locality& locality : cluster.localities) {
    for (Endpoint& each : locality.endpoints) retire(std::move(each.checks));
  }
}

void CheckedClusters::log_result() {
  std::string text =
      absl::StrCat("xds: health discovery: ", endpoints_, " of ", endpoints_ + unknown_, " endpoints are checked");
  if (too_many_ != 0) {
    absl::StrAppend(&text, "; there is no room for ", too_many_, ", as at most ", kMaxChecks, " checks are made");
  }
  if (text == logged_) return;
  log_line(too_many_ != 0 ? LogLevel::kWarning : LogLevel::kInfo, text);
  logged_ = std::move(text);
}

std::vector<ClusterHealth> CheckedClusters::health() const {
  std::vector<ClusterHealth> all;
  uint64_t unhealthy = 0;
  for (const Cluster& cluster : clusters_) {
    ClusterHealth& health = all.emplace_back();
    health.name = cluster.name;
    for (const Locality& locality : cluster.localities) {
      auto& to = health.localities.emplace_back(ClusterHealth::Locality{.place = locality.place, .endpoints = {}});
      for (const Endpoint& each : locality.endpoints) {
        const HealthStatus status = each.checks ? each.checks->status() : HealthStatus::kUnknown;
        unhealthy += status == HealthStatus::kUnhealthy || status == HealthStatus::kTimeout ? 1 : 0;
        to.endpoints.push_back({.address = each.address, .status = status});
      }
    }
  }
  counters_.unhealthy_endpoints.set(unhealthy);
  return all;
}

void CheckedClusters::renew_certificates() {
  if (clusters_.empty()) return;
  Cluster& cluster = clusters_[next_renewed_++ % clusters_.size()];
  if (!problem_of(cluster.settings).empty()) return;
  for (const auto& each : cluster.settings) {
    if (!each->tls) continue;
    // What was read before stays, as it may be good still.
    if (const absl::Status read = read_certificates(*each); !read.ok()) {
      log_lines(LogLevel::kWarning, absl::StrCat(start_of_line(cluster.name), ": ", read.message()));
    }
  }
  for (Locality& locality : cluster.localities) {
    for (Endpoint& each : locality.endpoints) {
      if (each.checks) each.checks->renew_certificates();
    }
  }
}

void CheckedClusters::close() {
  for (Cluster& each : std::exchange(clusters_, {})) retire_all(each);
}

size_t CheckedClusters::destroy_ended() {
  std::erase_if(ending_, [](const auto& each) { return each->idle(); });
  return ending_.size();
}

}  // namespace sluice::xds
