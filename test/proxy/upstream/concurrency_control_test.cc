// The limit of the requests in flight, with a simulated server: it has a number of slots, requests wait for one first
// in, first out, and clients send requests whether or not they get responses. Nothing depends on the time of day.

#include "proxy/upstream/concurrency_control.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <queue>
#include <random>
#include <utility>
#include <vector>

namespace sluice {
namespace {

/// Time is in milliseconds.
class Simulation {
 public:
  /// Adds a proxy, or one worker of it, which gets `rate` requests a second.
  ConcurrencyControl& add_proxy(double rate, const ConcurrencyControl::Options& options = {}) {
    proxies_.push_back({std::make_unique<ConcurrencyControl>(options, LearnedConcurrency(), &wish_), rate, {}});
    next_arrival(proxies_.size() - 1);
    return *proxies_.back().control;
  }
  void set_rate(size_t proxy, double rate) {
    const bool idle = std::exchange(proxies_[proxy].rate, rate) == 0;
    if (idle) next_arrival(proxy);
  }
  void run(double duration) {
    done = refused = 0;
    times_.clear();
    least_limit = UINT32_MAX;
    most_limit = 0;
    for (const double end = now_ + duration; !events_.empty() && events_.top().at < end;) {
      const Event event = events_.top();
      events_.pop();
      now_ = event.at;
      event.arrives ? arrive(event.proxy) : finish(event);
    }
    seconds_ = duration / 1000;
  }

  double goodput() const { return static_cast<double>(done) / seconds_; }
  /// Of those who got a response, with the wait for a place.
  double time_at(double share) {
    std::sort(times_.begin(), times_.end());
    return times_[static_cast<size_t>(static_cast<double>(times_.size() - 1) * share)];
  }
  double exponential(double mean) { return std::exponential_distribution<double>(1 / mean)(random_); }
  double uniform(double from, double to) { return std::uniform_real_distribution<double>(from, to)(random_); }

  size_t slots = 20;
  std::function<double()> service = [] { return 10.0; };
  bool fails = false;  // Requests have no response in time.
  uint64_t done = 0, refused = 0;
  uint32_t least_limit = 0, most_limit = 0;  // Without those in probes.

 private:
  struct Proxy {
    std::unique_ptr<ConcurrencyControl> control;
    double rate;
    std::deque<double> waiting;  // When they arrived.
  };
  struct Event {
    double at;
    bool arrives;
    size_t proxy;
    double arrived = 0, sent = 0;
    bool operator>(const Event& other) const { return at > other.at; }
  };
  struct Request {
    size_t proxy;
    double arrived, sent;
  };

  uint64_t now_ms() const { return static_cast<uint64_t>(now_); }
  void next_arrival(size_t proxy) {
    if (proxies_[proxy].rate > 0) events_.push({now_ + exponential(1000 / proxies_[proxy].rate), true, proxy});
  }
  void arrive(size_t index) {
    Proxy& proxy = proxies_[index];
    next_arrival(index);
    proxy.control->note_time(now_ms());
    if (proxy.control->in_flight() < proxy.control->limit() && proxy.waiting.empty()) return send(index, now_);
    proxy.control->note_full();
    if (proxy.waiting.size() < proxy.control->limit()) return proxy.waiting.push_back(now_);
    ++refused;
  }
  void send(size_t proxy, double arrived) {
    proxies_[proxy].control->note_begin(now_ms());
    queue_.push_back({proxy, arrived, now_});
    serve();
  }
  void serve() {
    while (busy_ < slots && !queue_.empty()) {
      const Request request = queue_.front();
      queue_.pop_front();
      ++busy_;
      events_.push({now_ + service(), false, request.proxy, request.arrived, request.sent});
    }
  }
  void finish(const Event& event) {
    --busy_;
    ConcurrencyControl& control = *proxies_[event.proxy].control;
    if (fails) {
      control.note_failure(now_ms());
      control.note_end();
    } else {
      control.note_response(now_ms() - static_cast<uint64_t>(event.sent), now_ms());
      ++done;
      times_.push_back(now_ - event.arrived);
    }
    if (!control.probing()) {
      least_limit = std::min(least_limit, control.limit());
      most_limit = std::max(most_limit, control.limit());
    }
    serve();
    for (size_t i = 0; i < proxies_.size(); ++i) admit(i);
  }
  void admit(size_t index) {
    Proxy& proxy = proxies_[index];
    while (!proxy.waiting.empty() && proxy.control->in_flight() < proxy.control->limit()) {
      const double arrived = proxy.waiting.front();
      proxy.waiting.pop_front();
      send(index, arrived);
    }
    if (!proxy.waiting.empty()) proxy.control->note_full();
  }

  std::mt19937_64 random_{1};
  std::atomic<uint64_t> wish_{0};
  std::vector<Proxy> proxies_;
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
  std::deque<Request> queue_;
  std::vector<double> times_;
  size_t busy_ = 0;
  double now_ = 1e9;
  double seconds_ = 1;
};

class ConcurrencyControlTest : public testing::Test {
 protected:
  Simulation server;
};

TEST_F(ConcurrencyControlTest, TwiceTheCapacity) {
  server.add_proxy(4000);
  server.run(1000);
  EXPECT_GE(server.goodput(), 0.9 * 2000) << "in the first second";
  server.run(60'000);
  EXPECT_GE(server.goodput(), 0.97 * 2000);
  EXPECT_GE(server.least_limit, 20u);
  EXPECT_LE(server.most_limit, 50u);
  EXPECT_LE(server.time_at(0.99), 50) << "10 ms without load";
}

TEST_F(ConcurrencyControlTest, HalfOfTheCapacity) {
  const ConcurrencyControl& control = server.add_proxy(1000);
  server.run(60'000);
  EXPECT_LE(server.refused, 120u) << "of 60,000, by bursts during probes";
  EXPECT_LE(control.limit(), 60u) << "it does not grow beyond what is used";
}

TEST_F(ConcurrencyControlTest, TimesVary) {
  server.service = [this] { return server.exponential(10); };
  server.add_proxy(4000);
  server.run(60'000);
  EXPECT_GE(server.goodput(), 0.95 * 2000);
  EXPECT_GE(server.least_limit, 10u);
  EXPECT_LE(server.most_limit, 80u);
  EXPECT_LE(server.time_at(0.99), 120);
}

TEST_F(ConcurrencyControlTest, NearlyAllOfTheCapacity) {
  server.service = [this] { return server.exponential(10); };
  server.add_proxy(1800);
  server.run(60'000);
  EXPECT_GE(server.goodput(), 0.98 * 1800);
}

TEST_F(ConcurrencyControlTest, CapacityFalls) {
  const ConcurrencyControl& control = server.add_proxy(4000);
  server.run(3000);
  server.slots = 5;
  server.run(1000);
  EXPECT_LE(control.limit(), 15u) << "within a second";
  server.run(20'000);
  EXPECT_GE(server.goodput(), 0.95 * 500);
  EXPECT_LE(server.time_at(0.99), 60);
  EXPECT_LE(server.most_limit, 15u);
}

TEST_F(ConcurrencyControlTest, CapacityRises) {
  server.slots = 5;
  server.add_proxy(8000);
  server.run(3000);
  server.slots = 40;
  server.run(1000);
  server.run(1000);
  EXPECT_GE(server.goodput(), 0.95 * 4000) << "in the second after";
  server.run(20'000);
  EXPECT_GE(server.goodput(), 0.95 * 4000);
  EXPECT_LE(server.most_limit, 90u);
}

// All requests take longer, however few there are.
TEST_F(ConcurrencyControlTest, LatencyRisesAndFalls) {
  double mean = 10;
  server.service = [&] { return server.uniform(0.5, 1.5) * mean; };
  server.add_proxy(4000);
  server.run(3000);
  mean = 40;
  server.run(2500);
  server.run(1000);
  EXPECT_GE(server.goodput(), 0.9 * 500) << "in the third second";
  server.run(20'000);
  EXPECT_GE(server.goodput(), 0.95 * 500);
  mean = 10;
  server.run(2000);
  server.run(20'000);
  EXPECT_GE(server.goodput(), 0.95 * 2000);
  EXPECT_LE(server.time_at(0.99), 60);
}

// A share of the requests takes 100 ms, the others 2.
class TwoKindsOfRequests : public ConcurrencyControlTest, public testing::WithParamInterface<double> {};

TEST_P(TwoKindsOfRequests, ShareTheLimit) {
  const double slow = GetParam(), mean = slow * 100 + (1 - slow) * 2;
  server.service = [&] { return server.uniform(0, 1) < slow ? 100.0 : 2.0; };
  server.add_proxy(2 * 20'000 / mean);
  server.run(5000);
  server.run(60'000);
  EXPECT_GE(server.goodput(), 0.88 * 20'000 / mean);
  EXPECT_LE(server.time_at(0.99), 350);
  EXPECT_LE(server.most_limit, 150u);
}

INSTANTIATE_TEST_SUITE_P(, TwoKindsOfRequests, testing::Values(0.1, 0.5));

TEST_F(ConcurrencyControlTest, OneOfAHundredTakesLong) {
  server.service = [this] { return server.uniform(0, 1) < 0.01 ? 1000.0 : 5.0; };
  server.add_proxy(2 * 1338);
  server.run(5000);
  server.run(60'000);
  EXPECT_GE(server.goodput(), 0.8 * 1338);
  EXPECT_LE(server.most_limit, 200u);
}

TEST_F(ConcurrencyControlTest, SlowResponses) {
  server.slots = 50;
  server.service = [this] { return server.uniform(500, 1500); };
  server.add_proxy(100);
  server.run(30'000);
  server.run(60'000);
  EXPECT_GE(server.goodput(), 0.9 * 50);
  EXPECT_LE(server.time_at(0.99), 5000);
}

TEST_F(ConcurrencyControlTest, WorkersShareTheEndpoints) {
  server.slots = 100;
  server.service = [this] { return server.exponential(10); };
  server.add_proxy(20'000);
  server.add_proxy(0);
  server.run(5000);
  server.set_rate(1, 20'000);  // It begins while the first one has it all.
  server.run(20'000);
  EXPECT_GE(server.goodput(), 0.9 * 10'000);
  server.run(60'000);
  EXPECT_GE(server.goodput(), 0.95 * 10'000);
  EXPECT_LE(server.time_at(0.99), 120);
}

TEST_F(ConcurrencyControlTest, ManyWorkers) {
  server.slots = 200;
  server.service = [this] { return server.uniform(10, 30); };
  for (int i = 0; i < 16; ++i) server.add_proxy(1000);
  server.run(5000);
  server.run(60'000);
  EXPECT_GE(server.goodput(), 0.9 * 10'000);
  EXPECT_LE(server.time_at(0.99), 150);
}

TEST_F(ConcurrencyControlTest, FailuresLowerIt) {
  ConcurrencyControl& control = server.add_proxy(4000);
  server.run(3000);
  server.fails = true;
  server.run(2000);
  EXPECT_EQ(control.limit(), 3u);
  server.fails = false;
  server.run(2000);
  server.run(1000);
  EXPECT_GE(server.goodput(), 0.95 * 2000) << "in the third second";
}

TEST_F(ConcurrencyControlTest, FewFailuresDoNot) {
  ConcurrencyControl control({.initial = 50});
  for (uint64_t i = 0; i < 10'000; ++i) {
    const uint64_t now_ms = 1'000'000 + i;
    control.note_begin(now_ms);
    if (i % 50 == 0) control.note_failure(now_ms);
    control.note_response(10, now_ms);
  }
  EXPECT_EQ(control.limit(), 50u);
}

TEST_F(ConcurrencyControlTest, StaysWithinItsBounds) {
  ConcurrencyControl& control = server.add_proxy(40'000, {.min = 7, .max = 30, .initial = 1000});
  EXPECT_EQ(control.limit(), 30u);
  server.slots = 100;
  server.run(5000);
  EXPECT_LE(server.most_limit, 30u);
  EXPECT_GE(server.least_limit, 29u);
  server.slots = 1;
  server.run(20'000);
  EXPECT_LE(control.limit(), 14u);
  EXPECT_GE(server.least_limit, 7u);
}

TEST_F(ConcurrencyControlTest, NothingIsForgottenWhileThereIsNothingToDo) {
  ConcurrencyControl& control = server.add_proxy(4000);
  server.run(5000);
  const uint32_t limit = control.limit();
  server.set_rate(0, 0);
  server.run(1000);
  EXPECT_NEAR(control.limit(), limit, 8);
  server.run(3'600'000);
  server.set_rate(0, 4000);
  server.run(1000);
  EXPECT_GE(server.goodput(), 0.85 * 2000);
}

TEST_F(ConcurrencyControlTest, ContinuesWithWhatWasLearned) {
  const ConcurrencyControl next({.min = 3, .max = 1000, .initial = 20}, {.limit = 77, .base_ms = 12});
  EXPECT_EQ(next.limit(), 77u);
  EXPECT_EQ(next.base_ms(), 12);
  const ConcurrencyControl narrower({.min = 3, .max = 40, .initial = 20}, {.limit = 77, .base_ms = 12});
  EXPECT_EQ(narrower.limit(), 40u);
}

}  // namespace
}  // namespace sluice
