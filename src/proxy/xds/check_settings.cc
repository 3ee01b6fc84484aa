#include "proxy/xds/check_settings.h"

#include <algorithm>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "proxy/config/load/loader.h"
#include "proxy/envoy/mapping.h"
#include "proxy/envoy/proto_tree.h"
#include "proxy/envoy/yaml_writer.h"
#include "proxy/log/run_log.h"
#include "proxy/tls/tls_files.h"

namespace sluice::xds {
namespace {

using config::Node;

// Of a check with all that belongs to it.
constexpr size_t kMaxValues = 100'000;
// More would make a long line longer, and the first ones say what is wrong.
constexpr size_t kMaxProblems = 4;
// Keys of what has no settings. Other keys begin with a number.
constexpr std::string_view kNoChecks = "none", kTooManyChecks = "many";
// Of fields that were warned of.
constexpr size_t kMaxWarned = 1000;

Node map_of(std::string_view key, Node value) {
  Node map = envoy::map_node();
  envoy::put(map, key, std::move(value));
  return map;
}

Node list_of(Node item) {
  Node list = envoy::list_node();
  list.items.push_back(std::move(item));
  return list;
}

// A cluster needs an endpoint. The real ones replace it.
Node placeholder(Node socket_criteria) {
  Node address = envoy::map_node();
  envoy::put(address, "address", "127.0.0.1");
  envoy::put(address, "port_value", "1");
  Node entry = map_of("endpoint", map_of("address", map_of("socket_address", std::move(address))));
  if (socket_criteria.kind == Node::Kind::kMap) {
    envoy::put(entry, "metadata",
               map_of("filter_metadata", map_of("envoy.transport_socket_match", std::move(socket_criteria))));
  }
  return map_of("endpoints", list_of(map_of("lb_endpoints", list_of(std::move(entry)))));
}

// Takes a value out of a map; null if there is none.
Node take(Node& map, std::string_view key) {
  for (size_t i = 0; map.kind == Node::Kind::kMap && i < map.keys.size(); ++i) {
    if (map.keys[i].text != key) continue;
    Node taken = std::move(map.items[i]);
    envoy::remove_key(map, key);
    return taken;
  }
  return {};
}

Node* find_in(Node& map, std::string_view key) {
  for (size_t i = 0; map.kind == Node::Kind::kMap && i < map.keys.size(); ++i) {
    if (map.keys[i].text == key) return &map.items[i];
  }
  return nullptr;
}

// A cluster of Envoy's says which protocol its endpoints speak; here the check does.
absl::StatusOr<bool> needs_http2(Node& check) {
  if (find_in(check, "grpc_health_check") != nullptr) return true;
  Node* const http = find_in(check, "http_health_check");
  if (http == nullptr) return false;
  const Node codec = take(*http, "codec_client_type");
  if (codec.text == "HTTP3")
    return absl::InvalidArgumentError("http_health_check.codec_client_type: there is no HTTP/3");
  return codec.text == "HTTP2";
}

bool has_known_kind(const Node& check) {
  if (check.kind != Node::Kind::kMap) return false;
  return check.find("http_health_check") != nullptr || check.find("tcp_health_check") != nullptr ||
         check.find("grpc_health_check") != nullptr;
}

absl::StatusOr<Node> cluster_tree(const HealthSpecifier::Cluster& cluster, std::string_view bytes) {
  size_t values_left = kMaxValues;
  Node check;
  if (absl::Status read = envoy::read_message("envoy.config.core.v3.HealthCheck", bytes, values_left, check);
      !read.ok()) {
    return read;
  }
  if (!has_known_kind(check)) {
    return absl::InvalidArgumentError("it is none by HTTP, TCP or gRPC, and there are no others");
  }
  const absl::StatusOr<bool> http2 = needs_http2(check);
  if (!http2.ok()) return http2.status();
  Node tree = envoy::map_node();
  envoy::put(tree, "name", cluster.name.empty() ? "(without a name)" : cluster.name);
  envoy::put(tree, "type", "STATIC");
  envoy::put(tree, "load_assignment", placeholder(take(check, "transport_socket_match_criteria")));
  envoy::put(tree, "health_checks", list_of(std::move(check)));
  if (*http2) envoy::put(tree, "http2_protocol_options", envoy::map_node());
  Node matches = envoy::list_node();
  for (const std::string_view each : cluster.socket_matches) {
    if (absl::Status read = envoy::read_message("envoy.config.cluster.v3.Cluster.TransportSocketMatch", each,
                                                values_left, matches.items.emplace_back());
        !read.ok()) {
      return read;
    }
  }
  if (!matches.items.empty()) envoy::put(tree, "transport_socket_matches", std::move(matches));
  return tree;
}

// With the sizes of the parts, so that no two lists of parts have the same key.
std::string key_of(const HealthSpecifier::Cluster& cluster, std::string_view check) {
  std::string key = absl::StrCat(cluster.name.size(), " ", cluster.name, check.size(), " ", check);
  for (const std::string_view each : cluster.socket_matches) absl::StrAppend(&key, each.size(), " ", each);
  return key;
}

}  // namespace

std::vector<std::shared_ptr<CheckSettings>> CheckSettingsMaker::make_all(
    const HealthSpecifier::Cluster& cluster, const std::vector<std::shared_ptr<CheckSettings>>& known) {
  std::vector<std::shared_ptr<CheckSettings>> all;
  const auto add = [&](std::string_view key, const auto& make_it) {
    const auto same = std::find_if(known.begin(), known.end(), [&](const auto& each) { return each->key == key; });
    all.push_back(same != known.end() ? *same : make_it());
    all.back()->key = key;
  };
  const auto broken = [](std::string problem) {
    auto made = std::make_shared<CheckSettings>();
    made->problem = std::move(problem);
    return made;
  };
  if (cluster.checks.empty()) add(kNoChecks, [&] { return broken("it has no health_checks"); });
  if (cluster.checks.size() > kMaxChecksOfCluster) {
    add(kTooManyChecks, [&] {
      return broken(
          absl::StrCat("it has ", cluster.checks.size(), " health_checks, and the most are ", kMaxChecksOfCluster));
    });
    return all;
  }
  for (const std::string_view check : cluster.checks) add(key_of(cluster, check), [&] { return make(cluster, check); });
  return all;
}

std::shared_ptr<CheckSettings> CheckSettingsMaker::make(const HealthSpecifier::Cluster& cluster,
                                                        std::string_view check) {
  auto made = std::make_shared<CheckSettings>();
  if (const absl::Status filled = fill(cluster, check, *made); !filled.ok()) {
    made->problem = absl::StrCat("its health check cannot be made: ", filled.message());
  }
  return made;
}

absl::Status CheckSettingsMaker::fill(const HealthSpecifier::Cluster& cluster, std::string_view check,
                                      CheckSettings& made) {
  absl::StatusOr<Node> tree = cluster_tree(cluster, check);
  if (!tree.ok()) return tree.status();
  if (absl::Status moved = files_.move_to_files(*tree, made.key_files); !moved.ok()) return moved;
  envoy::ResourceSet set;
  set.secrets = resources_.secrets;
  set.clusters.push_back(&*tree);
  envoy::Findings findings;
  const Node mapped = envoy::map_to_tree(set, findings);
  if (absl::Status accepted = note_findings(findings); !accepted.ok()) return accepted;
  absl::StatusOr<config::Config> config = config::load_tree(mapped, "health discovery");
  if (!config.ok()) return config.status();
  if (config->upstreams.empty()) return absl::InvalidArgumentError("its cluster cannot be used");
  made.upstream = std::move(config->upstreams.front());
  made.upstream.endpoints.clear();
  made.upstream.name = std::string(cluster.name);
  config::Duration& interval = made.upstream.health_check->interval;
  interval = std::max(interval, kMinInterval);
  return read_certificates(made);
}

// What is refused makes another check of it. What is ignored does not, and is logged once for each field.
absl::Status CheckSettingsMaker::note_findings(const envoy::Findings& findings) {
  std::vector<std::string> problems;
  for (const envoy::Finding& finding : findings.list()) {
    if (finding.severity == envoy::Severity::kRefused) {
      if (problems.size() < kMaxProblems) problems.push_back(absl::StrCat(finding.path, ": ", finding.message));
    } else if (warned_fields_.size() < kMaxWarned && warned_fields_.insert(finding.path).second) {
      log_lines(LogLevel::kWarning, absl::StrCat("xds: health discovery: ", finding.text()));
    }
  }
  return problems.empty() ? absl::OkStatus() : absl::InvalidArgumentError(absl::StrJoin(problems, "; "));
}

void CheckSettingsMaker::keep_files(const std::vector<std::shared_ptr<CheckSettings>>& used) {
  files_.forget_named();
  for (const auto& each : used) files_.name(each->key_files);
  files_.keep_named();
}

absl::Status read_certificates(CheckSettings& settings) {
  std::vector<FileWarning> warnings;
  absl::StatusOr<bssl::UniquePtr<SSL_CTX>> tls = read_tls_files_of(settings.upstream, warnings);
  if (!tls.ok()) return tls.status();
  settings.tls = *std::move(tls);
  return absl::OkStatus();
}

}  // namespace sluice::xds
