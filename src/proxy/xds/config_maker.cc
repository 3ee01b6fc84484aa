#include "proxy/xds/config_maker.h"

#include <cstddef>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "proxy/config/load/diagnostics.h"
#include "proxy/envoy/mapping.h"
#include "proxy/log/run_log.h"

namespace sluice::xds {
namespace {

using config::Node;

// Endpoints change often, and an old connection should not end for that. A generation that is not used any more takes
// no memory.
constexpr uint32_t kMaxGenerations = 1000;

// More would make a long line longer, and the first ones say what is wrong.
constexpr size_t kMaxReasons = 8;

bool is_ready(ResourceKind owner, const Resource& resource, const ResourceStore& store, const Bootstrap& bootstrap) {
  static const std::set<std::string> none;
  for (const ResourceKind kind : {ResourceKind::kEndpoints, ResourceKind::kRoutes}) {
    if (!has_references(owner, resource, kind, store, none)) return false;
  }
  return has_references(owner, resource, ResourceKind::kSecret, store, bootstrap.secret_names) &&
         // Defaults are looked for only where an extension is missing.
         (has_references(owner, resource, ResourceKind::kExtension, store, none) ||
          has_references(owner, resource, ResourceKind::kExtension, store, extensions_with_default(resource.tree)));
}

config::Config with_many_generations() {
  config::Config config;
  config.reload.max_generations = kMaxGenerations;
  return config;
}

// A field without its resource and the places in lists: `thresholds[].max_retries`.
std::string field_of(const envoy::Finding& finding) {
  std::string out = absl::StrCat(finding.kind, ": ");
  bool in_brackets = false;
  for (const char c : finding.path) {
    if (c == ']') in_brackets = false;
    if (!in_brackets) out += c;
    if (c == '[') in_brackets = true;
  }
  return out;
}

// The resource of a finding; its name is that of Envoy's resource.
std::optional<ResourceKey> resource_of(const envoy::Finding& finding) {
  for (const KindInfo& info : kKinds) {
    if (info.one_label == finding.kind) return ResourceKey(info.kind, finding.name);
  }
  return std::nullopt;
}

// Collects warnings. Those of one field, which say the same of each resource, become one with a count.
class Warnings {
 public:
  void add(std::string text) { all_.push_back({std::move(text), 0}); }
  void add(std::string text, const std::string& field) {
    const auto [at, is_new] = of_field_.try_emplace(field, all_.size());
    if (!is_new) {
      ++all_[at->second].more;
      return;
    }
    all_.push_back({std::move(text), 0});
  }
  void write() const {
    for (const Warning& each : all_) {
      const std::string more = each.more == 0 ? "" : absl::StrCat(" (and ", each.more, " more of this field)");
      log_lines(LogLevel::kWarning, absl::StrCat("xds: ", each.text, more));
    }
  }

 private:
  struct Warning {
    std::string text;
    size_t more;
  };
  std::vector<Warning> all_;
  std::map<std::string, size_t> of_field_;
};

}  // namespace

ConfigMaker::ConfigMaker(const Bootstrap& bootstrap, Options options)
    : bootstrap_(bootstrap),
      options_(std::move(options)),
      files_(options_.secret_folder),
      loader_(with_many_generations()) {
  for (const Node* const cluster : bootstrap_.resources.clusters) {
    if (const Node* const name = cluster->find("name")) static_clusters_.insert(name->text);
  }
}

// What a version that stays in use refers to stays, too.
ResourceStore ConfigMaker::ready_part(const ResourceStore& store) const {
  ResourceStore ready = store;
  for (const ResourceKind owner : {ResourceKind::kCluster, ResourceKind::kListener}) {
    for (const auto& [resource_name, resource] : store.of(owner)) {
      if (is_ready(owner, *resource, store, bootstrap_)) continue;
      const ResourcePointer before = in_use_.find(owner, resource_name);
      if (before == nullptr) {
        ready.of(owner).erase(resource_name);
        continue;
      }
      ready.of(owner)[resource_name] = before;
      for (const ResourceKind kind :
           {ResourceKind::kEndpoints, ResourceKind::kRoutes, ResourceKind::kSecret, ResourceKind::kExtension}) {
        for (const std::string& name : references_of(owner, before->tree, kind)) {
          const ResourcePointer kept = in_use_.find(kind, name);
          if (kept != nullptr) ready.of(kind).try_emplace(name, kept);
        }
      }
    }
  }
  return ready;
}

// Static ones are there, and those that cannot be used, by themselves or for what they refer to, would not come.
std::set<std::string> ConfigMaker::clusters_not_awaited(const ResourceStore& store) const {
  std::set<std::string> names = static_clusters_;
  for (const ResourceKey& refused : store.refused()) {
    if (refused.first == ResourceKind::kCluster) names.insert(refused.second);
    for (const auto& [name, cluster] : store.of(ResourceKind::kCluster)) {
      if (refers_to(ResourceKind::kCluster, *cluster, refused)) names.insert(name);
    }
  }
  return names;
}

absl::StatusOr<std::shared_ptr<const config::Config>> ConfigMaker::make(const ResourceStore& store, uint64_t now_ms,
                                                                        ResourceKeys& blamed) {
  ResourceStore ready = ready_part(store);
  const ResourceStore newest = ready;
  wait_.put_off(in_use_, clusters_not_awaited(store), now_ms, ready);
  // What is put off is checked now, so that the response that brings it is rejected, and none that comes later.
  if (wait_.has_news()) {
    if (const auto checked = map(newest, true, blamed); !checked.ok()) return checked.status();
  }
  auto config = map(ready, false, blamed);
  if (config.ok()) next_ = std::move(ready);
  return config;
}

absl::Status ConfigMaker::prepare(const KindInfo& info, const ResourcePointer& resource, PreparedResources& next) {
  auto known = prepared_.extract(resource.get());
  if (!known.empty()) {
    files_.name(known.mapped().files);
    next.insert(std::move(known));
    return absl::OkStatus();
  }
  Prepared made{.resource = resource, .tree = nullptr, .files = {}};
  if (SecretFiles::has_inline_sources(resource->tree)) {
    Node tree = resource->tree;
    if (const absl::Status moved = files_.move_to_files(tree, made.files); !moved.ok()) {
      return absl::Status(moved.code(), absl::StrCat(info.label, " ", resource->name, ": ", moved.message()));
    }
    made.tree = std::make_shared<const Node>(std::move(tree));
  }
  files_.name(made.files);
  next.emplace(resource.get(), std::move(made));
  return absl::OkStatus();
}

// A trial has no effect, and logs nothing.
absl::StatusOr<std::shared_ptr<const config::Config>> ConfigMaker::map(const ResourceStore& ready, bool is_trial,
                                                                       ResourceKeys& blamed) {
  files_.forget_named();
  envoy::ResourceSet set = bootstrap_.resources;
  set.may_follow = true;
  PreparedResources prepared;
  for (const KindInfo& info : kKinds) {
    const bool has_secrets = info.kind != ResourceKind::kRoutes && info.kind != ResourceKind::kEndpoints;
    for (const auto& [name, resource] : ready.of(info.kind)) {
      const Node* tree = &resource->tree;
      if (has_secrets) {
        if (absl::Status status = prepare(info, resource, prepared); !status.ok()) {
          prepared_.merge(prepared);  // The mapping still refers to their trees.
          blamed.emplace(info.kind, name);
          return status;
        }
        const Prepared& found = prepared.find(resource.get())->second;
        if (found.tree != nullptr) tree = found.tree.get();
      }
      set.add(info.type, *tree);
    }
  }
  envoy::Findings findings;
  config::TreeParts parts = mapping_.map(set, findings);
  // Only now, since the mapping compares with the trees of the last time.
  prepared_ = std::move(prepared);
  mapped_ = ready;
  if (const absl::Status checked = check_findings(findings, is_trial, blamed); !checked.ok()) return checked;
  auto config = loader_.load(parts, "xds", options_.check);
  if (config.ok()) return config;
  return absl::Status(config.status().code(), with_names(config.status().message(), parts.join(), blamed));
}

// Adds the name of the cluster or listener to each `upstreams[N]` and `listeners[N]`, which only the tree has.
std::string ConfigMaker::with_names(std::string_view message, const Node& tree, ResourceKeys& blamed) const {
  std::string out(message);
  std::map<std::string, std::string, std::less<>> clusters;
  for (const auto& [cluster, upstream] : mapping_.upstream_names()) clusters.emplace(upstream, cluster);
  for (const std::string_view list : {"upstreams", "listeners"}) {
    const bool is_cluster = list == "upstreams";
    const Node* const items = tree.find(list);
    for (size_t i = 0; items != nullptr && i < items->items.size(); ++i) {
      const std::string place = config::item_path(list, i);
      if (!absl::StrContains(out, place)) continue;
      const std::string& name = items->items[i].find("name")->text;
      const auto& names = is_cluster ? clusters : mapping_.listener_names();
      const auto found = names.find(name);
      const std::string& resource = found == names.end() ? name : found->second;
      blamed.emplace(is_cluster ? ResourceKind::kCluster : ResourceKind::kListener, resource);
      absl::StrReplaceAll({{place, absl::StrCat(is_cluster ? "cluster " : "listener ", resource)}}, &out);
    }
  }
  return out;
}

// A response is rejected only for findings that the accepted resources do not have already.
absl::Status ConfigMaker::check_findings(const envoy::Findings& findings, bool is_trial, ResourceKeys& blamed) {
  std::vector<std::string> reasons;
  Warnings warnings;
  next_known_.clear();
  next_known_fields_ = known_fields_;
  for (const envoy::Finding& finding : findings.list()) {
    std::string text = finding.text();
    const bool is_new = !known_.contains(text);
    if (finding.severity == envoy::Severity::kRefused && !options_.accepts_unsupported && is_new) {
      if (reasons.size() < kMaxReasons) reasons.push_back(text);
      if (std::optional<ResourceKey> resource = resource_of(finding)) blamed.insert(*std::move(resource));
    } else if (is_new && finding.severity == envoy::Severity::kIgnored && finding.of_all) {
      const std::string field = field_of(finding);
      if (!known_fields_.contains(field)) warnings.add(text, field);
      next_known_fields_.insert(field);
    } else if (is_new) {
      warnings.add(text);
    }
    next_known_.insert(std::move(text));
  }
  if (!is_trial) warnings.write();
  return reasons.empty() ? absl::OkStatus() : absl::InvalidArgumentError(absl::StrJoin(reasons, "; "));
}

void ConfigMaker::commit() {
  files_.keep_named();
  wait_.commit();
  in_use_ = next_;
  names_ = std::make_shared<const envoy::UpstreamNames>(mapping_.upstream_names());
  known_ = next_known_;
  known_fields_ = next_known_fields_;
}

}  // namespace sluice::xds
