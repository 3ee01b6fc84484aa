#include "proxy/xds/cluster_wait.h"

#include <algorithm>
#include <iterator>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "proxy/log/run_log.h"

namespace sluice::xds {
namespace {

using config::Node;
using Names = std::set<std::string>;

// A line of the log names no more.
constexpr size_t kMaxNames = 8;

const Node* member_of(const Node* map, std::string_view key) {
  return map != nullptr && map->kind == Node::Kind::kMap ? map->find(key) : nullptr;
}

void add_text(const Node* map, std::string_view key, Names& names) {
  const Node* const value = member_of(map, key);
  if (value != nullptr && !value->text.empty()) names.insert(value->text);
}

// `owner` is a route's action or a TCP proxy.
void add_targets(const Node* owner, Names& names) {
  add_text(owner, "cluster", names);
  const Node* const parts = member_of(member_of(owner, "weighted_clusters"), "clusters");
  if (parts == nullptr) return;
  for (const Node& part : parts->items) add_text(&part, "name", names);
}

void add_routes(const Node& hosts, Names& names) {
  for (const Node& host : hosts.items) {
    const Node* const routes = member_of(&host, "routes");
    if (routes == nullptr) continue;
    for (const Node& route : routes->items) add_targets(member_of(&route, "route"), names);
  }
}

void add_forwarded(const Node& node, Names& names) {
  if (const Node* const hosts = member_of(&node, "virtual_hosts")) add_routes(*hosts, names);
  if (const Node* const type = member_of(&node, "@type"); type != nullptr && absl::EndsWith(type->text, ".TcpProxy")) {
    add_targets(&node, names);
  }
  for (const Node& item : node.items) add_forwarded(item, names);
}

Names without(const Names& names, const Names& others) {
  Names left;
  std::set_difference(names.begin(), names.end(), others.begin(), others.end(), std::inserter(left, left.end()));
  return left;
}

// A listener forwards to the clusters of its own routes and of those that it names, but for the routes in `except`.
Names clusters_of_listener(const Resource& listener, const ResourceStore& store, const Names& except) {
  Names names = forwarded_clusters(listener.tree);
  for (const std::string& name : references_of(ResourceKind::kListener, listener.tree, ResourceKind::kRoutes)) {
    const ResourcePointer routes = store.find(ResourceKind::kRoutes, name);
    if (routes != nullptr && !except.contains(name)) names.merge(forwarded_clusters(routes->tree));
  }
  return names;
}

// Adds what a resource refers to and `store` lacks.
void keep_references(ResourceKind owner, const Resource& resource, const ResourceStore& in_use, ResourceStore& store) {
  for (const KindInfo& info : kKinds) {
    if (!info.by_name) continue;
    for (const std::string& name : references_of(owner, resource.tree, info.kind)) {
      const ResourcePointer kept = in_use.find(info.kind, name);
      if (kept != nullptr && store.find(info.kind, name) == nullptr) store.of(info.kind).emplace(name, kept);
    }
  }
}

void keep_clusters(const Names& names, const ResourceStore& in_use, ResourceStore& store) {
  for (const std::string& name : names) {
    const ResourcePointer kept = in_use.find(ResourceKind::kCluster, name);
    if (kept == nullptr || store.find(ResourceKind::kCluster, name) != nullptr) continue;
    store.of(ResourceKind::kCluster).emplace(name, kept);
    keep_references(ResourceKind::kCluster, *kept, in_use, store);
  }
}

std::string words_for(const std::vector<std::string>& clusters) {
  const size_t shown = std::min(clusters.size(), kMaxNames);
  const std::vector<std::string> first(clusters.begin(), clusters.begin() + static_cast<ptrdiff_t>(shown));
  const std::string more = shown == clusters.size() ? "" : absl::StrCat(" and ", clusters.size() - shown, " more");
  return absl::StrCat(clusters.size() == 1 ? "the cluster " : "the clusters ", absl::StrJoin(first, ", "), more);
}

}  // namespace

Names forwarded_clusters(const Node& tree) {
  Names names;
  add_forwarded(tree, names);
  return names;
}

bool ClusterWait::must_wait(ResourceKind kind, const std::string& name, Names missing, const ResourcePointer& next,
                            uint64_t now_ms) {
  if (missing.empty()) return false;
  const auto before = waits_.find({kind, name});
  // Newer versions do not start the time anew, so that many changes in a row put nothing off for ever.
  const uint64_t since = before == waits_.end() ? now_ms : before->second.since_ms;
  const bool is_over = now_ms >= since + kMaxMs;
  next_.insert_or_assign(
      {kind, name},
      Waiting{.next = next, .clusters = {missing.begin(), missing.end()}, .since_ms = since, .is_over = is_over});
  return !is_over;
}

void ClusterWait::put_off(const ResourceStore& in_use, const Names& elsewhere, uint64_t now_ms, ResourceStore& ready) {
  next_.clear();
  const ResourceStore newest = ready;
  // Clusters that are kept only for an update that waits do not count as present.
  const auto without_present = [&](Names names) {
    std::erase_if(names, [&](const std::string& name) {
      return elsewhere.contains(name) || newest.find(ResourceKind::kCluster, name) != nullptr;
    });
    return names;
  };
  Names kept;

  // Routes that no listener uses yet may change at once.
  for (const std::string& name : wanted_names(in_use, ResourceKind::kRoutes)) {
    const ResourcePointer before = in_use.find(ResourceKind::kRoutes, name);
    const ResourcePointer now = newest.find(ResourceKind::kRoutes, name);
    if (before == nullptr || now == nullptr || now == before) continue;
    const Names old_names = forwarded_clusters(before->tree), new_names = forwarded_clusters(now->tree);
    const Names missing = without_present(without(new_names, old_names));
    if (!must_wait(ResourceKind::kRoutes, name, missing, now, now_ms)) continue;
    ready.of(ResourceKind::kRoutes)[name] = before;
    kept.merge(without(old_names, new_names));
  }
  for (const auto& [name, listener] : newest.of(ResourceKind::kListener)) {
    const ResourcePointer before = in_use.find(ResourceKind::kListener, name);
    if (before == nullptr || before == listener) continue;
    const Names old_names = clusters_of_listener(*before, in_use, {});
    // Those that it named before wait by themselves.
    const Names same = references_of(ResourceKind::kListener, before->tree, ResourceKind::kRoutes);
    const Names missing = without_present(without(clusters_of_listener(*listener, newest, same), old_names));
    if (!must_wait(ResourceKind::kListener, name, missing, listener, now_ms)) continue;
    const Names new_names = clusters_of_listener(*listener, newest, {});
    ready.of(ResourceKind::kListener)[name] = before;
    keep_references(ResourceKind::kListener, *before, in_use, ready);
    kept.merge(without(old_names, new_names));
  }
  keep_clusters(kept, in_use, ready);
}

bool ClusterWait::has_news() const {
  return std::any_of(next_.begin(), next_.end(), [this](const auto& each) {
    const auto before = waits_.find(each.first);
    return !each.second.is_over && (before == waits_.end() || before->second.next != each.second.next);
  });
}

void ClusterWait::commit() {
  const auto subject = [](const Waits::value_type& each) {
    return absl::StrCat("xds: ", info_of(each.first.first).label, " ", each.first.second, ": ");
  };
  for (const auto& each : waits_) {
    if (!next_.contains(each.first)) log_line(LogLevel::kInfo, absl::StrCat(subject(each), "no longer waiting"));
  }
  for (auto each = next_.begin(); each != next_.end();) {
    const std::string clusters = words_for(each->second.clusters);
    const auto before = waits_.find(each->first);
    if (each->second.is_over) {
      log_line(LogLevel::kWarning,
               absl::StrCat(subject(*each), "waited ", kMaxMs / 1000, " s for ", clusters,
                            "; the update is in use without: requests for what is missing get 503"));
      ++timeouts_;
      each = next_.erase(each);
      continue;
    }
    if (before == waits_.end()) {
      log_line(LogLevel::kInfo, absl::StrCat(subject(*each), "an update waits for ", clusters, ", for ", kMaxMs / 1000,
                                             " s at most; what is in use stays"));
    } else if (before->second.clusters != each->second.clusters) {
      log_line(LogLevel::kInfo, absl::StrCat(subject(*each), "the update now waits for ", clusters));
    }
    ++each;
  }
  waits_ = std::move(next_);
  next_.clear();
}

std::optional<uint64_t> ClusterWait::due_ms() const {
  std::optional<uint64_t> due;
  for (const auto& [key, waiting] : waits_) due = std::min(due.value_or(UINT64_MAX), waiting.since_ms + kMaxMs);
  return due;
}

}  // namespace sluice::xds
