#include "proxy/xds/bootstrap.h"

#include <memory>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "proxy/common/read_file.h"
#include "proxy/common/suggestions.h"
#include "proxy/config/load/diagnostics.h"
#include "proxy/config/load/loader.h"
#include "proxy/envoy/mapping.h"
#include "proxy/envoy/message.h"
#include "proxy/log/run_log.h"
#include "proxy/xds/secret_files.h"

namespace sluice::xds {
namespace {

using config::Node;

// Envoy's messages are nested deeper than Sluice's configuration.
constexpr size_t kMaxDepth = 64;

const Node* member(const Node* map, std::string_view name) {
  if (map == nullptr || map->kind != Node::Kind::kMap) return nullptr;
  for (size_t i = 0; i < map->keys.size(); ++i) {
    if (envoy::snake_case(map->keys[i].text) == name) return &map->items[i];
  }
  return nullptr;
}

std::string text(const Node* map, std::string_view name) {
  const Node* const value = member(map, name);
  return value != nullptr ? value->text : std::string();
}

class BootstrapReader {
 public:
  BootstrapReader(const std::string& path, const std::string& secret_folder)
      : path_(path),
        files_(secret_folder),
        made_(std::make_unique<Bootstrap>(Bootstrap{.of_service = config::Config()})) {}

  absl::StatusOr<std::unique_ptr<Bootstrap>> read() {
    Node& root = made_->trees.emplace_back();
    if (const absl::Status parsed = parse(path_, root); !parsed.ok()) return parsed;
    if (const absl::Status read = read_secret_paths(root); !read.ok()) return read;
    read_node(member(&root, "node"));
    const absl::StatusOr<std::string> service = find_service(root);
    if (!service.ok()) return service.status();
    const absl::StatusOr<std::string> load_service =
        find_further_service(member(&root, "cluster_manager"), "load_stats_config", "cluster_manager.");
    if (!load_service.ok()) return load_service.status();
    const absl::StatusOr<std::string> health_service = find_further_service(&root, "hds_config", "");
    if (!health_service.ok()) return health_service.status();
    if (const absl::Status added = add_resources(root); !added.ok()) return added;
    absl::StatusOr<config::Config> found = read_service(*service, "the control plane");
    if (!found.ok()) return found.status();
    made_->of_service = *std::move(found);
    absl::Status read = read_further_service(*load_service, "which gets load reports", made_->of_loads);
    if (read.ok()) read = read_further_service(*health_service, "the health discovery service", made_->of_health);
    if (!read.ok()) return read;
    return std::move(made_);
  }

 private:
  absl::Status fail(std::string_view why) const { return absl::InvalidArgumentError(absl::StrCat(path_, ": ", why)); }

  absl::Status parse(const std::string& path, Node& root) {
    const absl::StatusOr<std::string> text = read_file(path);
    if (!text.ok()) return text.status();
    config::Report report(path);
    config::YamlBudget budget{.depth = kMaxDepth, .has_variables = false};
    if (!config::parse_yaml(*text, 0, budget, root, report)) return report.status();
    return files_.move_to_files(root);
  }

  void read_node(const Node* node) {
    NodeIdentity& to = made_->node;
    to.id = text(node, "id");
    to.cluster = text(node, "cluster");
    const Node* const locality = member(node, "locality");
    to.region = text(locality, "region");
    to.zone = text(locality, "zone");
    to.sub_zone = text(locality, "sub_zone");
    if (const Node* const metadata = member(node, "metadata")) to.metadata = *metadata;
  }

  // The cluster of `ads_config`.
  absl::StatusOr<std::string> find_service(const Node& root) {
    const Node* const ads = member(member(&root, "dynamic_resources"), "ads_config");
    if (ads == nullptr) return fail("dynamic_resources.ads_config is missing: it names the control plane");
    const std::string type = text(ads, "api_type");
    if (type != "GRPC" && type != "DELTA_GRPC") {
      return fail(absl::StrCat("dynamic_resources.ads_config.api_type: expected GRPC or DELTA_GRPC, got ",
                               config::in_quotes(type)));
    }
    made_->is_delta = type == "DELTA_GRPC";
    return cluster_of(ads, "dynamic_resources.ads_config");
  }

  absl::StatusOr<std::string> cluster_of(const Node* source, std::string_view path) const {
    const Node* const services = member(source, "grpc_services");
    const Node* const first = services == nullptr                  ? nullptr
                              : services->kind == Node::Kind::kMap ? services
                              : services->items.empty()            ? nullptr
                                                                   : &services->items.front();
    const std::string name = text(member(first, "envoy_grpc"), "cluster_name");
    if (name.empty()) return fail(absl::StrCat(path, ".grpc_services[0].envoy_grpc.cluster_name is missing"));
    return name;
  }

  // The cluster of the ApiConfigSource `key` in `owner`; empty if there is none. `place`: of the owner.
  absl::StatusOr<std::string> find_further_service(const Node* owner, std::string_view key,
                                                   std::string_view place) const {
    const Node* const source = member(owner, key);
    if (source == nullptr) return std::string();
    const std::string path = absl::StrCat(place, key);
    const std::string type = text(source, "api_type");
    if (type != "GRPC") {
      return fail(absl::StrCat(path, ".api_type: expected GRPC, got ", config::in_quotes(type)));
    }
    return cluster_of(source, path);
  }

  // Whether all that the file says of clusters in general is where load reports go to.
  static bool is_of_loads_only(const Node& manager) {
    return manager.kind == Node::Kind::kMap && manager.keys.size() == 1 &&
           envoy::snake_case(manager.keys.front().text) == "load_stats_config";
  }

  // Secrets in files that the bootstrap names: `sds_config: { path_config_source: { path: FILE } }`.
  absl::Status read_secret_paths(const Node& node) {
    if (const Node* const config = member(&node, "sds_config")) {
      std::string path = text(member(config, "path_config_source"), "path");
      if (path.empty()) path = text(config, "path");
      if (!path.empty()) {
        Node& tree = made_->trees.emplace_back();
        if (const absl::Status parsed = parse(path, tree); !parsed.ok()) return parsed;
        envoy::Findings findings;
        if (!made_->resources.add_document(tree, findings))
          return absl::InvalidArgumentError(findings.list()[0].text());
      }
    }
    for (const Node& item : node.items) {
      if (const absl::Status read = read_secret_paths(item); !read.ok()) return read;
    }
    return absl::OkStatus();
  }

  // Only the parts that Sluice has; of the others, a warning.
  absl::Status add_resources(const Node& root) {
    Node& known = made_->trees.emplace_back();
    known.kind = Node::Kind::kMap;
    for (size_t i = 0; i < root.keys.size(); ++i) {
      const std::string name = envoy::snake_case(root.keys[i].text);
      if (name == "node" || name == "dynamic_resources" || name == "hds_config") continue;
      if (name == "cluster_manager" && is_of_loads_only(root.items[i])) continue;
      known.keys.push_back(root.keys[i]);
      known.items.push_back(root.items[i]);
    }
    if (!made_->resources.add("envoy.config.bootstrap.v3.Bootstrap", known)) return fail("it is no bootstrap");
    for (const Node* const secret : made_->resources.secrets) made_->secret_names.insert(text(secret, "name"));
    return absl::OkStatus();
  }

  // The configuration whose only upstream is the cluster. `role`: what it is, for errors.
  absl::StatusOr<config::Config> read_service(const std::string& name, std::string_view role) {
    const Node* const cluster = envoy::ResourceIndex(made_->resources.clusters, "name").find(name);
    if (cluster == nullptr) {
      return fail(absl::StrCat("static_resources.clusters has no ", config::in_quotes(name), ", ", role));
    }
    envoy::ResourceSet only;
    only.secrets = made_->resources.secrets;
    only.clusters.push_back(cluster);
    envoy::Findings findings;
    absl::StatusOr<config::Config> config = config::load_tree(envoy::map_to_tree(only, findings), path_);
    for (const envoy::Finding& finding : findings.list()) {
      if (finding.severity == envoy::Severity::kRefused) return fail(finding.text());
    }
    if (!config.ok()) return config.status();
    if (config->upstreams.empty()) return fail(absl::StrCat("cluster ", name, " cannot be used"));
    if (config->upstreams.front().protocol != config::Protocol::kHttp2) {
      return fail(absl::StrCat("cluster ", name, ": gRPC needs HTTP/2: set http2_protocol_options"));
    }
    return config;
  }

  absl::Status read_further_service(const std::string& name, std::string_view role,
                                    std::optional<config::Snapshot<config::Config>>& to) {
    if (name.empty()) return absl::OkStatus();
    absl::StatusOr<config::Config> found = read_service(name, role);
    if (!found.ok()) return found.status();
    to = config::Snapshot<config::Config>(*std::move(found));
    return absl::OkStatus();
  }

  const std::string path_;
  SecretFiles files_;
  std::unique_ptr<Bootstrap> made_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Bootstrap>> read_bootstrap(const std::string& path, const std::string& secret_folder) {
  return BootstrapReader(path, secret_folder).read();
}

}  // namespace sluice::xds
