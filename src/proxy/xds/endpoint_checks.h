#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "proxy/http/proxy/http_worker.h"
#include "proxy/xds/check_settings.h"
#include "proxy/xds/check_target.h"
#include "proxy/xds/health_messages.h"

namespace sluice::xds {

/// The checks of one endpoint for a health discovery service. They are made until close(), and logged when the state of
/// the endpoint changes.
class EndpointChecks {
 public:
  /// `settings`: of each check; none has a problem. `before`: what is known of the same endpoint by other settings, or
  /// null.
  EndpointChecks(HttpWorker& worker, const CheckTarget& target,
                 const std::vector<std::shared_ptr<CheckSettings>>& settings, const EndpointChecks* before);
  /// Precondition: idle().
  ~EndpointChecks();
  EndpointChecks(const EndpointChecks&) = delete;
  EndpointChecks& operator=(const EndpointChecks&) = delete;

  void start();
  /// Starts no further check, and ends those in progress.
  void close();
  /// Whether nothing of it is in progress any more, after close().
  bool idle() const;

  /// It is healthy if all checks say so. Until each has an outcome, it is not, as in Envoy.
  HealthStatus status() const;
  size_t size() const { return checks_.size(); }
  bool is_by(const std::vector<std::shared_ptr<CheckSettings>>& settings) const { return settings_ == settings; }
  /// New connections use the certificates that the settings have now.
  void renew_certificates();

 private:
  class Check;

  const std::vector<std::shared_ptr<CheckSettings>> settings_;
  std::vector<std::unique_ptr<Check>> checks_;
};

}  // namespace sluice::xds
