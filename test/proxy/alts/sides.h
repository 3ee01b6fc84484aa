// Handshakes through a fake service, as sessions do them.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "proxy/alts/alts_handshake.h"
#include "proxy/alts/handshaker_service.h"
#include "test/net/loop.h"
#include "test/proxy/alts/fake_service.h"
#include "test/support/buffers.h"

namespace sluice::test {

/// A loop, a fake service, and the connection to it. Everything is closed at the end, and nothing may be left.
class HandshakerFixture : public ::testing::Test {
 public:
  explicit HandshakerFixture(FakeDialect dialect = FakeDialect::kGo) : fake(dialect) {}

  void SetUp() override {
    descriptors_ = open_descriptors();
    loop.emplace();
    service = std::make_unique<HandshakerService>(*loop, fake.address);
  }
  void TearDown() override {
    service->close();
    EXPECT_TRUE(loop->until([&] { return service->idle(); }));
    service.reset();
    fake.connections.clear();
    loop.reset();
    EXPECT_EQ(open_descriptors(), descriptors_);
  }

  Worker& worker() { return loop->worker(); }
  bool until(const std::function<bool()>& done) {
    return loop->until([&] {
      fake.turn();
      return done();
    });
  }
  /// Runs the loop until nothing more happens.
  void settle() {
    for (int i = 0; i < 10; ++i) {
      loop->settle(2);
      fake.turn();
    }
  }
  /// Does `count` handshakes of clients, which must succeed.
  void handshakes(int count);

  FakeService fake;
  std::optional<Loop> loop;
  std::unique_ptr<HandshakerService> service;

 protected:
  std::vector<std::string> requests_;

 private:
  size_t descriptors_ = 0;
};

/// One side of a connection.
class Side {
 public:
  Side(HandshakerFixture& fixture, bool is_client, HandshakerService* service = nullptr, AltsOptions options = {})
      : fixture_(fixture), step_([](void* self) { static_cast<Side*>(self)->advance(); }, this) {
    options.is_client = is_client;
    handshake = std::make_unique<AltsHandshake>(service ? *service : *fixture.service, std::move(options), step_);
    if (is_client) start();
  }
  void start() { fixture_.worker().yielding_tasks().push(step_); }
  /// Receives `bytes` from the peer.
  void give(std::string_view bytes) {
    received.append(buffer_of(fixture_.worker().pool(), bytes));
    start();
  }
  /// Gives `other` a piece of the bytes that were sent.
  void pass_on(Side& other, size_t bytes) {
    const std::string piece = sent.substr(passed_, bytes);
    passed_ += piece.size();
    if (!piece.empty()) other.give(piece);
  }
  bool over() const { return status != Handshake::Status::kNeedMore; }

  std::unique_ptr<AltsHandshake> handshake;
  Handshake::Status status = Handshake::Status::kNeedMore;
  Buffer received;
  std::string sent;
  int steps = 0;

 private:
  void advance() {
    if (over()) return;
    ++steps;
    Buffer out;
    status = handshake->advance(fixture_.worker().pool(), std::move(received), out);
    sent += text_of(out);
  }

  HandshakerFixture& fixture_;
  YieldingTask step_;
  size_t passed_ = 0;
};

inline void HandshakerFixture::handshakes(int count) {
  std::vector<std::unique_ptr<Side>> sides;
  for (int i = 0; i < count; ++i) sides.push_back(std::make_unique<Side>(*this, true));
  const auto all_over = [&] {
    bool all = true;
    for (const auto& side : sides) {
      if (side->sent == "ClientInit" && side->handshake && !side->over() && side->received.empty() &&
          side->handshake->wants_bytes()) {
        side->give("ServerInitServerFinished");
      }
      all = all && side->over();
    }
    return all;
  };
  ASSERT_TRUE(until(all_over));
  for (const auto& side : sides) {
    ASSERT_EQ(side->status, Handshake::Status::kDone) << side->handshake->error();
    EXPECT_EQ(side->sent, "ClientInitClientFinished");
  }
}

}  // namespace sluice::test
