// The resources in the form of Envoy's admin page /config_dump, for the tools of Envoy's control planes.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>

#include "proxy/envoy/mapping.h"
#include "proxy/xds/bootstrap.h"
#include "proxy/xds/load_source.h"
#include "proxy/xds/resource_store.h"
#include "proxy/xds/stat_names.h"

namespace sluice::xds {

/// Writes envoy.admin.v3.ConfigDump. The client's thread publishes what there is to show; any thread may show it.
class ConfigDump {
 public:
  /// `bootstrap` outlives it. `now_ms`: since 1970.
  ConfigDump(const Bootstrap& bootstrap, int64_t now_ms) : bootstrap_(bootstrap), started_ms_(now_ms) {}

  /// `in_use`: what the configuration is made of, with the upstreams of these `names`. `newest`: what was accepted
  /// last; what waits differs. `now_ms`: since 1970.
  void publish(const ResourceStore& in_use, const ResourceStore& newest,
               std::shared_ptr<const envoy::UpstreamNames> names, int64_t now_ms);

  /// The document, in JSON. Endpoints are in it only with `with_endpoints`. Contents of messages and fields that Sluice
  /// does not know are left out; one more entry of `configs`, a google.protobuf.Struct, then names them.
  std::string json(bool with_endpoints) const;
  /// The same for Envoy's page /clusters: envoy.admin.v3.Clusters.
  std::string clusters(const LoadView& view) const;
  /// The same for Envoy's page /listeners: envoy.admin.v3.Listeners.
  std::string listeners() const;
  /// What Envoy's statistics call the parts of the configuration. The same object until publish().
  std::shared_ptr<const StatNames> stat_names() const;

 private:
  struct Shown {
    ResourceStore in_use, newest;
    std::shared_ptr<const envoy::UpstreamNames> names = std::make_shared<const envoy::UpstreamNames>();
    std::unordered_map<const Resource*, int64_t> since_ms;  // When it was accepted, or came into use.
  };
  class Writer;
  std::shared_ptr<const Shown> shown() const;

  const Bootstrap& bootstrap_;
  const int64_t started_ms_;
  mutable std::mutex mutex_;
  std::shared_ptr<const Shown> shown_ = std::make_shared<Shown>();  // Guarded by mutex_.
  // Those of shown_; null: nobody has asked for them yet. Guarded by mutex_.
  mutable std::shared_ptr<const StatNames> stat_names_;
};

}  // namespace sluice::xds
