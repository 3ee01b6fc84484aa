// A handshaker service that is given by name: resolved beside the worker, and again for each connection.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>

#include "net/helper_threads.h"
#include "test/proxy/alts/name_server.h"
#include "test/proxy/alts/sides.h"

namespace sluice {
namespace {

using test::FakeService;
using test::Side;
using ::testing::HasSubstr;
using ::testing::StartsWith;
using Status = Handshake::Status;

class HandshakerNamesTest : public test::HandshakerFixture {
 protected:
  void SetUp() override {
    threads_.emplace(1);
    HandshakerFixture::SetUp();
    desk_.emplace(worker());
    const std::string port = std::to_string(fake.address.port());
    text_ = "alts.test.:" + port;
    by_name_ = std::make_unique<HandshakerService>(worker(), config::EndpointAddress::parse(text_).value(), &*threads_,
                                                   names_.settings());
  }
  void TearDown() override {
    by_name_->close();
    EXPECT_TRUE(wait([&] { return by_name_->idle(); }));
    by_name_.reset();
    desk_.reset();
    threads_.reset();
    HandshakerFixture::TearDown();
  }
  bool wait(const std::function<bool()>& done) {
    return until([&] {
      names_.turn();
      return done();
    });
  }
  static std::string wire_name() { return std::string("\4alts\4test"); }
  std::string error_of_client() {
    Side client(*this, true, by_name_.get());
    EXPECT_TRUE(wait([&] { return client.over(); }));
    return client.handshake->error();
  }

  std::optional<HelperThreads> threads_;
  std::optional<HelperThreads::Desk> desk_;
  test::NameServer names_;
  std::string text_;
  std::unique_ptr<HandshakerService> by_name_;
};

TEST_F(HandshakerNamesTest, NameIsResolved) {
  names_.addresses[wire_name()] = {"127.0.0.1"};
  Side client(*this, true, by_name_.get());
  ASSERT_TRUE(wait([&] { return client.sent == "ClientInit"; }));
  EXPECT_EQ(fake.headers[0][":authority"], text_);
  client.give("ServerInitServerFinished");
  ASSERT_TRUE(wait([&] { return client.over(); }));
  EXPECT_EQ(client.status, Status::kDone) << client.handshake->error();
  EXPECT_EQ(names_.query_count, 1);
}

TEST_F(HandshakerNamesTest, NameIsResolvedForEachConnection) {
  names_.addresses[wire_name()] = {"127.0.0.1"};
  Side first(*this, true, by_name_.get());
  ASSERT_TRUE(wait([&] { return first.sent == "ClientInit"; }));
  Side second(*this, true, by_name_.get());
  ASSERT_TRUE(wait([&] { return second.sent == "ClientInit"; }));
  EXPECT_EQ(names_.query_count, 1);
  fake.connections.front()->peer.reset();
  ASSERT_TRUE(wait([&] { return first.over() && second.over(); }));
  Side third(*this, true, by_name_.get());
  ASSERT_TRUE(wait([&] { return third.sent == "ClientInit"; }));
  EXPECT_EQ(names_.query_count, 2);
  EXPECT_EQ(fake.accepted, 2);
}

TEST_F(HandshakerNamesTest, NextAddressIsTried) {
  names_.addresses[wire_name()] = {"127.0.0.2", "127.0.0.1"};  // The service listens on the second only.
  Side client(*this, true, by_name_.get());
  ASSERT_TRUE(wait([&] { return client.over() || client.sent == "ClientInit"; }));
  EXPECT_EQ(client.handshake->error(), "");
  names_.addresses[wire_name()] = {"127.0.0.2", "127.0.0.3"};
  fake.connections.front()->peer.reset();
  ASSERT_TRUE(wait([&] { return client.over(); }));
  EXPECT_EQ(error_of_client(), "the handshaker service " + text_ + " cannot be reached: Connection refused");
}

TEST_F(HandshakerNamesTest, OneFamilyIsEnough) {
  names_.addresses[wire_name()] = {"127.0.0.1"};
  names_.responds_ip6 = false;
  const uint64_t began_ms = worker().now_ms();
  Side client(*this, true, by_name_.get());
  ASSERT_TRUE(wait([&] { return client.sent == "ClientInit"; }));
  EXPECT_LT(worker().now_ms() - began_ms, static_cast<uint64_t>(HandshakerLookup::kTimeoutMs));
}

TEST_F(HandshakerNamesTest, UnknownName) {
  EXPECT_EQ(error_of_client(), "the handshaker service " + text_ + " cannot be found: the name has no address");
  names_.addresses[wire_name()] = {"127.0.0.1"};
  Side client(*this, true, by_name_.get());
  ASSERT_TRUE(wait([&] { return client.sent == "ClientInit"; }));
}

TEST_F(HandshakerNamesTest, NameServerFails) {
  names_.fails = true;
  EXPECT_THAT(error_of_client(), StartsWith("the handshaker service " + text_ + " cannot be found: alts.test."));
}

TEST_F(HandshakerNamesTest, NameServerIsSilent) {
  names_.responds = false;
  EXPECT_EQ(error_of_client(),
            "the handshaker service " + text_ + " cannot be found: no answer from the name servers within 5 seconds");
}

TEST_F(HandshakerNamesTest, CloseDuringLookup) {
  names_.responds = false;
  Side client(*this, true, by_name_.get());
  ASSERT_TRUE(wait([&] { return names_.query_count > 0; }));
  by_name_->close();
  ASSERT_TRUE(wait([&] { return client.over(); }));
  EXPECT_THAT(client.handshake->error(), HasSubstr("the proxy is shutting down"));
}

TEST_F(HandshakerNamesTest, HandshakeAbandonedDuringLookup) {
  names_.responds = false;
  auto client = std::make_unique<Side>(*this, true, by_name_.get());
  ASSERT_TRUE(wait([&] { return names_.query_count > 0; }));
  client.reset();
  names_.responds = true;
  names_.addresses[wire_name()] = {"127.0.0.1"};
  Side next(*this, true, by_name_.get());
  ASSERT_TRUE(wait([&] { return next.sent == "ClientInit"; }));
}

// Without threads for lookups, as in tools that make a service of their own.
TEST_F(HandshakerNamesTest, NamesWithoutThreads) {
  HandshakerService its(worker(), config::EndpointAddress::parse(text_).value());
  {
    Side client(*this, true, &its);
    ASSERT_TRUE(wait([&] { return client.over(); }));
    EXPECT_THAT(client.handshake->error(), HasSubstr("cannot be found: names are not looked up here"));
  }
  its.close();
  EXPECT_TRUE(its.idle());
}

}  // namespace
}  // namespace sluice
