#include "proxy/http/proxy/phases/phases.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "proxy/compression/compressor_pool.h"
#include "proxy/http/proxy/phases/phase_context.h"

namespace sluice {
namespace {

class Phases : public testing::Test {
 protected:
  config::HttpRoute& forward() {
    config::HttpRoute& route = http.routes.emplace_back();
    route.forward = "origin";
    return route;
  }
  /// How many phases a request of this route meets; -1: of no route.
  size_t count(int route, PhaseStep step) {
    const RoutePhases* const found = phases->of(route < 0 ? nullptr : &router.targets()[static_cast<size_t>(route)]);
    return found ? found->at(step).size() : 0;
  }
  void make() {
    router = HttpRouter(http, {{.name = "origin"}});
    access = ListenerAccess::make(http, auth);
    phases = std::make_unique<ListenerPhases>();
    phases->make({.http = http,
                  .target = nullptr,
                  .access = access.get(),
                  .compression = nullptr,
                  .counters = counters,
                  .compressors = compressors,
                  .random = random},
                 router.targets());
  }

  config::Http http;
  SharedAuth auth;
  HttpCounters counters;
  CompressorPool compressors;
  Random random{1};
  HttpRouter router;
  std::unique_ptr<ListenerAccess> access;
  std::unique_ptr<ListenerPhases> phases;
};

TEST_F(Phases, ARouteWithoutFeaturesHasNone) {
  forward();
  forward().maintenance.emplace().file = "/nowhere";
  make();
  EXPECT_EQ(phases->of(nullptr), nullptr);
  EXPECT_EQ(phases->of(&router.targets()[0]), nullptr);
  EXPECT_EQ(count(1, PhaseStep::kAdmit), 1u);
  EXPECT_EQ(count(1, PhaseStep::kResponseFields), 1u);
  EXPECT_EQ(count(1, PhaseStep::kSend), 0u);
}

TEST_F(Phases, TheListenerAppliesToEachRequest) {
  forward();
  http.deny = {config::Cidr::parse("192.0.2.0/24").value()};
  http.request_id.emplace().respond = true;
  config::FieldChange change{.name = config::FieldName::parse("x-a").value()};
  change.remove = true;
  http.response_headers = {change};
  make();
  for (const int route : {-1, 0}) {
    EXPECT_EQ(count(route, PhaseStep::kAdmit), 1u);
    EXPECT_EQ(count(route, PhaseStep::kResponseFields), 1u);
    EXPECT_EQ(count(route, PhaseStep::kResponseRules), 1u);
  }
}

TEST_F(Phases, ARouteActsInOneWay) {
  http.routes.emplace_back().redirect.emplace().scheme = "https";
  http.routes.emplace_back().respond.emplace();
  config::HttpRoute& all = forward();
  all.rewrite.emplace().host = "inner";
  all.mirror = {{.to = "origin"}};
  all.buffer.emplace().requests = {1 << 20};
  make();
  EXPECT_EQ(count(0, PhaseStep::kAct), 1u);
  EXPECT_EQ(count(1, PhaseStep::kAct), 1u);
  EXPECT_EQ(count(2, PhaseStep::kAct), 0u);
  EXPECT_EQ(count(2, PhaseStep::kForward), 1u);
  EXPECT_EQ(count(2, PhaseStep::kSend), 2u);
}

}  // namespace
}  // namespace sluice
