#include "proxy/xds/config_dump.h"

#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "proxy/common/json_writer.h"
#include "proxy/envoy/proto_json.h"
#include "proxy/envoy/tree_json.h"
#include "proxy/xds/cluster_facts.h"
#include "proxy/xds/status_documents.h"

namespace sluice::xds {

class ConfigDump::Writer {
 public:
  Writer(const Shown& shown, const Bootstrap& bootstrap, int64_t started_ms)
      : shown_(shown), bootstrap_(bootstrap), started_ms_(started_ms) {}

  std::string write(bool with_endpoints) && {
    json_.begin_object().key("configs").begin_array();
    section("Bootstrap", [this] {
      json_.key("bootstrap");
      files_.write("envoy.config.bootstrap.v3.Bootstrap", bootstrap_.trees.front());
      json_.member("last_updated", time_text(started_ms_));
    });
    section("Clusters", [this] {
      static_list("static_clusters", bootstrap_.resources.clusters, ResourceKind::kCluster, "cluster");
      list("dynamic_active_clusters", shown_.in_use, ResourceKind::kCluster, "cluster");
      list("dynamic_warming_clusters", waiting(ResourceKind::kCluster), ResourceKind::kCluster, "cluster");
    });
    if (with_endpoints) {
      section("Endpoints",
              [this] { list("dynamic_endpoint_configs", shown_.in_use, ResourceKind::kEndpoints, "endpoint_config"); });
    }
    if (!shown_.in_use.of(ResourceKind::kExtension).empty()) {
      section("Ecds", [this] { list("ecds_filters", shown_.in_use, ResourceKind::kExtension, "ecds_filter"); });
    }
    section("Listeners", [this] { listeners(); });
    section("Routes", [this] { list("dynamic_route_configs", shown_.in_use, ResourceKind::kRoutes, "route_config"); });
    section("Secrets", [this] {
      static_list("static_secrets", bootstrap_.resources.secrets, ResourceKind::kSecret, "secret");
      list("dynamic_active_secrets", shown_.in_use, ResourceKind::kSecret, "secret");
    });
    note_left_out();
    json_.end_array().end_object();
    return std::move(json_).text();
  }

 private:
  template <class Members>
  void section(std::string_view name, const Members& members) {
    json_.begin_object().member("@type", absl::StrCat("type.googleapis.com/envoy.admin.v3.", name, "ConfigDump"));
    members();
    json_.end_object();
  }

  // The resources whose newest version is not in use.
  ResourceStore waiting(ResourceKind kind) const {
    ResourceStore made;
    for (const auto& [name, resource] : shown_.newest.of(kind)) {
      if (shown_.in_use.find(kind, name) != resource) made.of(kind).emplace(name, resource);
    }
    return made;
  }

  // The members that all kinds of entries have.
  void members(ResourceKind kind, const Resource& resource, std::string_view member) {
    if (!resource.version.empty()) json_.member("version_info", resource.version);
    json_.key(member);
    resources_.write_any(info_of(kind).type, resource.bytes);
    if (const auto since = shown_.since_ms.find(&resource); since != shown_.since_ms.end()) {
      json_.member("last_updated", time_text(since->second));
    }
  }

  static std::string time_text(int64_t ms) {
    return absl::FormatTime("%Y-%m-%dT%H:%M:%E3SZ", absl::FromUnixMillis(ms), absl::UTCTimeZone());
  }

  // Resources of the bootstrap file.
  void static_list(std::string_view name, const std::vector<const config::Node*>& all, ResourceKind kind,
                   std::string_view member) {
    if (all.empty()) return;
    json_.key(name).begin_array();
    for (const config::Node* const each : all) {
      json_.begin_object();
      const config::Node* const own = each->find("name");
      if (kind == ResourceKind::kSecret && own != nullptr) json_.member("name", own->text);
      json_.key(member);
      files_.write_any(info_of(kind).type, *each);
      json_.member("last_updated", time_text(started_ms_)).end_object();
    }
    json_.end_array();
  }

  void list(std::string_view name, const ResourceStore& store, ResourceKind kind, std::string_view member) {
    if (store.of(kind).empty()) return;
    json_.key(name).begin_array();
    for (const auto& [key, resource] : store.of(kind)) {
      json_.begin_object();
      if (kind == ResourceKind::kSecret) json_.member("name", key);
      members(kind, *resource, member);
      json_.end_object();
    }
    json_.end_array();
  }

  void listeners() {
    ResourceStore all = shown_.in_use;
    for (const auto& each : shown_.newest.of(ResourceKind::kListener)) all.of(ResourceKind::kListener).insert(each);
    const ResourceStore next = waiting(ResourceKind::kListener);
    static_list("static_listeners", bootstrap_.resources.listeners, ResourceKind::kListener, "listener");
    if (all.of(ResourceKind::kListener).empty()) return;
    json_.key("dynamic_listeners").begin_array();
    for (const auto& each : all.of(ResourceKind::kListener)) {
      json_.begin_object().member("name", each.first);
      listener_state("active_state", shown_.in_use, each.first);
      listener_state("warming_state", next, each.first);
      json_.end_object();
    }
    json_.end_array();
  }

  void listener_state(std::string_view member, const ResourceStore& store, std::string_view name) {
    const ResourcePointer resource = store.find(ResourceKind::kListener, name);
    if (resource == nullptr) return;
    json_.key(member).begin_object();
    members(ResourceKind::kListener, *resource, "listener");
    json_.end_object();
  }

  // In a type that readers of the document know, so that they do not stumble over it.
  void note_left_out() {
    std::set<std::string> left_out = resources_.left_out();
    left_out.insert(files_.left_out().begin(), files_.left_out().end());
    if (left_out.empty()) return;
    json_.begin_object().member("@type", "type.googleapis.com/google.protobuf.Struct");
    json_.key("value").begin_object();
    json_.member("note", "Sluice does not know these messages and fields of Envoy's: their contents are left out");
    json_.key("left_out").begin_array();
    for (const std::string& each : left_out) json_.value(each);
    json_.end_array().end_object().end_object();
  }

  const Shown& shown_;
  const Bootstrap& bootstrap_;
  const int64_t started_ms_;
  JsonWriter json_;
  envoy::ProtoJson resources_{json_};
  envoy::TreeJson files_{json_};
};

void ConfigDump::publish(const ResourceStore& in_use, const ResourceStore& newest,
                         std::shared_ptr<const envoy::UpstreamNames> names, int64_t now_ms) {
  auto next =
      std::make_shared<Shown>(Shown{.in_use = in_use, .newest = newest, .names = std::move(names), .since_ms = {}});
  const std::shared_ptr<const Shown> before = shown();
  next->since_ms.reserve(before->since_ms.size());
  for (const ResourceStore* const store : {&in_use, &newest}) {
    for (const KindInfo& info : kKinds) {
      if (store == &newest && newest.shares(info.kind, in_use)) continue;
      for (const auto& [name, resource] : store->of(info.kind)) {
        const auto since = before->since_ms.find(resource.get());
        next->since_ms.emplace(resource.get(), since != before->since_ms.end() ? since->second : now_ms);
      }
    }
  }
  const std::lock_guard lock(mutex_);
  stat_names_.reset();
  shown_ = std::move(next);
}

std::shared_ptr<const ConfigDump::Shown> ConfigDump::shown() const {
  const std::lock_guard lock(mutex_);
  return shown_;
}

std::string ConfigDump::json(bool with_endpoints) const {
  const std::shared_ptr<const Shown> now = shown();
  return Writer(*now, bootstrap_, started_ms_).write(with_endpoints);
}

std::string ConfigDump::clusters(const LoadView& view) const {
  const std::shared_ptr<const Shown> now = shown();
  return cluster_statuses(cluster_table(bootstrap_, now->in_use, *now->names), view);
}

std::string ConfigDump::listeners() const {
  const std::shared_ptr<const Shown> now = shown();
  std::vector<const config::Node*> all = bootstrap_.resources.listeners;
  for (const auto& [name, each] : now->in_use.of(ResourceKind::kListener)) all.push_back(&each->tree);
  return listener_statuses(all);
}

std::shared_ptr<const StatNames> ConfigDump::stat_names() const {
  std::shared_ptr<const Shown> now;
  {
    const std::lock_guard lock(mutex_);
    if (stat_names_ != nullptr) return stat_names_;
    now = shown_;
  }
  const auto made = std::make_shared<StatNames>();
  for (const auto& [cluster, upstream] : *now->names) made->clusters.emplace(upstream, cluster);
  const auto count = [&](ResourceKind kind, size_t fixed, size_t& active, size_t& warming) {
    active = fixed + now->in_use.of(kind).size();
    for (const auto& [name, resource] : now->newest.of(kind)) {
      if (now->in_use.find(kind, name) != resource) ++warming;
    }
  };
  const envoy::ResourceSet& fixed = bootstrap_.resources;
  count(ResourceKind::kCluster, fixed.clusters.size(), made->active_clusters, made->warming_clusters);
  count(ResourceKind::kListener, fixed.listeners.size(), made->active_listeners, made->warming_listeners);
  for (const config::Node* const each : fixed.listeners) made->add_listener(*each);
  for (const auto& [name, each] : now->in_use.of(ResourceKind::kListener)) made->add_listener(each->tree);
  const std::lock_guard lock(mutex_);
  if (shown_ == now) stat_names_ = made;
  return made;
}

}  // namespace sluice::xds
