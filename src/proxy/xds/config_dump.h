// The resources in the form of Envoy's admin page /config_dump, for the tools of Envoy's control planes.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>

#include "proxy/xds/resource_store.h"

namespace sluice::xds {

/// Writes envoy.admin.v3.ConfigDump. The client's thread publishes what there is to show; any thread may show it.
class ConfigDump {
 public:
  /// `in_use`: what the configuration is made of. `newest`: what was accepted last; what waits differs. `now_ms`: since
  /// 1970.
  void publish(const ResourceStore& in_use, const ResourceStore& newest, int64_t now_ms);

  /// The document, in JSON. Endpoints are in it only with `with_endpoints`. Contents of messages and fields that Sluice
  /// does not know are left out; one more entry of `configs`, a google.protobuf.Struct, then names them.
  std::string json(bool with_endpoints) const;

 private:
  struct Shown {
    ResourceStore in_use, newest;
    std::unordered_map<const Resource*, int64_t> since_ms;  // When it was accepted, or came into use.
  };
  class Writer;

  mutable std::mutex mutex_;
  std::shared_ptr<const Shown> shown_ = std::make_shared<Shown>();  // Guarded by mutex_.
};

}  // namespace sluice::xds
