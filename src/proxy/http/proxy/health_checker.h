#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "net/timer_wheel.h"
#include "proxy/http/proxy/check_connection.h"
#include "proxy/upstream/balancer.h"
#include "proxy/upstream/check_thresholds.h"

namespace sluice {

/// Checks the endpoints of one upstream, on one worker: each endpoint at once and then every `interval`, never twice at
/// the same time. All workers see the results (EndpointHealth). New endpoints are checked as soon as the worker follows
/// them; removed endpoints are no longer checked.
class HealthChecker final : private CheckConnection::Owner {
 public:
  /// Gets the results instead of the endpoints' health and the log.
  class Observer {
   public:
    /// `healthy`: the state of the endpoint after this result, which is any but kNotMade. `why`: the reason if the
    /// check did not pass.
    virtual void on_result(uint32_t endpoint, bool healthy, CheckConnection::Outcome outcome, std::string_view why) = 0;

   protected:
    ~Observer() = default;
  };
  /// `balancer`: the worker's balancer for the upstream. It, the worker and the observer outlive the checker.
  /// Precondition: the upstream's configuration has a `health_check`.
  HealthChecker(HttpWorker& worker, Balancer& balancer, Observer* observer = nullptr);
  ~HealthChecker();
  HealthChecker(const HealthChecker&) = delete;
  HealthChecker& operator=(const HealthChecker&) = delete;

  void start() { follow_endpoints(); }
  /// Call it when the upstream's names may have resolved to other endpoints.
  void follow_endpoints();
  /// Starts no further check, and ends those in progress without an outcome.
  void close();
  bool idle() const { return shared_.existing == 0; }

 private:
  /// The state of one slot.
  struct Endpoint {
    Endpoint(HealthChecker& checker, uint32_t number, const config::HealthCheck& config)
        : owner(checker),
          index(number),
          timer([](void* self) { static_cast<Endpoint*>(self)->owner.check(*static_cast<Endpoint*>(self)); }, this),
          thresholds(config.healthy_after, config.unhealthy_after) {}
    HealthChecker& owner;
    uint32_t index;
    Timer timer;
    CheckThresholds thresholds;
    uint32_t incarnation = 0;  // Of the endpoint of the last check.
    uint64_t next_ms = 0;
    bool checking = false;
  };

  void on_checked(CheckConnection& check, CheckConnection::Outcome outcome, std::string_view why) override;
  void on_check_gone(CheckConnection& check) override;

  void check(Endpoint& endpoint);
  void take_result(Endpoint& endpoint, CheckConnection::Outcome outcome, std::string_view why);
  EndpointHealth& health_of(const Endpoint& endpoint);
  uint64_t now_ms() const;

  Balancer& balancer_;
  Observer* const observer_;
  CheckConnection::Shared shared_;
  std::vector<std::unique_ptr<Endpoint>> endpoints_;
  std::vector<CheckConnection*> connections_;
  bool closed_ = false;
};

}  // namespace sluice
