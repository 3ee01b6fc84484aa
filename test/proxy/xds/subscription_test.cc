#include "proxy/xds/subscription.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "proxy/common/proto_reader.h"
#include "proxy/common/proto_writer.h"
#include "proxy/xds/resource_cache.h"

namespace sluice::xds {
namespace {

template <class Write>
std::string message(const Write& write) {
  std::string room(4096, '\0');
  ProtoWriter out(room);
  write(out);
  EXPECT_TRUE(out.ok());
  return std::string(out.written());
}

std::string url_of(ResourceKind kind) { return "type.googleapis.com/" + std::string(info_of(kind).type); }

// A cluster whose endpoints come by EDS.
std::string eds_cluster(std::string_view name) {
  return message([&](ProtoWriter& out) {
    out.text(1, name);
    out.number(2, 3);
  });
}
std::string endpoints(std::string_view name) {
  return message([&](ProtoWriter& out) { out.text(1, name); });
}

using Resources = std::map<std::string, std::string>;

std::string state_response(ResourceKind kind, std::string_view version, std::string_view nonce,
                           const Resources& resources) {
  return message([&](ProtoWriter& out) {
    out.text(1, version);
    for (const auto& [name, bytes] : resources) {
      const size_t any = out.begin(2);
      out.text(1, url_of(kind));
      out.text(2, bytes);
      out.end(any);
    }
    out.text(4, url_of(kind));
    out.text(5, nonce);
  });
}

std::string delta_response(ResourceKind kind, std::string_view version, std::string_view nonce,
                           const Resources& resources, const std::vector<std::string>& removed = {}) {
  return message([&](ProtoWriter& out) {
    for (const auto& [name, bytes] : resources) {
      const size_t wrapper = out.begin(2);
      out.text(1, version);
      const size_t any = out.begin(2);
      out.text(1, url_of(kind));
      out.text(2, bytes);
      out.end(any);
      out.text(3, name);
      out.end(wrapper);
    }
    out.text(4, url_of(kind));
    out.text(5, nonce);
    for (const std::string& each : removed) out.text(6, each);
  });
}

// A request as the control plane reads it.
struct Seen {
  std::map<uint32_t, std::vector<std::string>> fields;

  std::string one(uint32_t field) const {
    const auto found = fields.find(field);
    return found == fields.end() ? "" : found->second.front();
  }
  std::vector<std::string> all(uint32_t field) const {
    const auto found = fields.find(field);
    return found == fields.end() ? std::vector<std::string>() : found->second;
  }
};

class SubscriptionTest : public testing::Test {
 protected:
  void start(bool is_delta, ResourceStore store = {}) {
    subscription_.emplace(
        NodeIdentity{.id = "n", .cluster = "c", .region = {}, .zone = {}, .sub_zone = {}, .metadata = {}}, is_delta,
        std::move(store),
        [this](const ResourceStore& candidate) {
          applied_.push_back(candidate);
          return verdict_;
        },
        counters_);
    begin();
  }
  void begin() {
    subscription_->begin([this](std::string text) {
      Seen& seen = sent_.emplace_back();
      ProtoReader in(text);
      while (in.next()) seen.fields[in.field()].emplace_back(in.bytes());
      EXPECT_TRUE(in.ok());
    });
  }
  std::vector<Seen> take_sent() { return std::exchange(sent_, {}); }

  absl::Status verdict_;
  XdsCounters counters_;
  std::vector<ResourceStore> applied_;
  std::vector<Seen> sent_;
  std::optional<Subscription> subscription_;
};

TEST_F(SubscriptionTest, RequestsAllClustersAndListenersFirst) {
  start(false);
  const std::vector<Seen> sent = take_sent();
  ASSERT_EQ(sent.size(), 2U);
  EXPECT_EQ(sent[0].one(4), url_of(ResourceKind::kCluster));
  EXPECT_NE(sent[0].one(2), "");
  EXPECT_EQ(sent[1].one(4), url_of(ResourceKind::kListener));
  EXPECT_EQ(sent[1].one(2), "") << "the node is sent once on a stream";
}

TEST_F(SubscriptionTest, AcceptsAndRequestsWhatIsReferredTo) {
  start(false);
  take_sent();
  EXPECT_TRUE(subscription_
                  ->on_message(state_response(ResourceKind::kCluster, "1", "n1",
                                              {{"a", eds_cluster("a")}, {"b", eds_cluster("b")}}))
                  .ok());
  const std::vector<Seen> sent = take_sent();
  ASSERT_EQ(sent.size(), 2U);
  EXPECT_EQ(sent[0].one(1), "1");
  EXPECT_EQ(sent[0].one(5), "n1");
  EXPECT_EQ(sent[0].one(6), "");
  EXPECT_EQ(sent[1].one(4), url_of(ResourceKind::kEndpoints));
  EXPECT_EQ(sent[1].all(3), (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(counters_.accepted[0].value(), 1U);
}

TEST_F(SubscriptionTest, RejectsWithTheLastVersionAndAReason) {
  start(false);
  EXPECT_TRUE(
      subscription_->on_message(state_response(ResourceKind::kCluster, "1", "n1", {{"a", eds_cluster("a")}})).ok());
  take_sent();
  verdict_ = absl::InvalidArgumentError("cluster b: bad");
  EXPECT_TRUE(
      subscription_->on_message(state_response(ResourceKind::kCluster, "2", "n2", {{"b", eds_cluster("b")}})).ok());
  const std::vector<Seen> sent = take_sent();
  ASSERT_EQ(sent.size(), 1U);
  EXPECT_EQ(sent[0].one(1), "1");
  EXPECT_EQ(sent[0].one(5), "n2");
  EXPECT_NE(sent[0].one(6).find("cluster b: bad"), std::string::npos);
  EXPECT_NE(subscription_->store().find(ResourceKind::kCluster, "a"), nullptr);
  EXPECT_EQ(subscription_->store().find(ResourceKind::kCluster, "b"), nullptr);
}

TEST_F(SubscriptionTest, AListOfAllRemovesWhatItLacksAndOneByNameDoesNot) {
  start(false);
  (void)subscription_->on_message(
      state_response(ResourceKind::kCluster, "1", "n1", {{"a", eds_cluster("a")}, {"b", eds_cluster("b")}}));
  (void)subscription_->on_message(
      state_response(ResourceKind::kEndpoints, "1", "n2", {{"a", endpoints("a")}, {"b", endpoints("b")}}));
  (void)subscription_->on_message(state_response(ResourceKind::kEndpoints, "2", "n3", {{"a", endpoints("a")}}));
  EXPECT_NE(subscription_->store().find(ResourceKind::kEndpoints, "b"), nullptr);
  (void)subscription_->on_message(state_response(ResourceKind::kCluster, "2", "n4", {{"a", eds_cluster("a")}}));
  EXPECT_EQ(subscription_->store().find(ResourceKind::kCluster, "b"), nullptr);
  EXPECT_EQ(subscription_->store().find(ResourceKind::kEndpoints, "b"), nullptr) << "nobody refers to it any more";
}

TEST_F(SubscriptionTest, ANewStreamSaysWhatItHas) {
  start(false);
  (void)subscription_->on_message(state_response(ResourceKind::kCluster, "1", "n1", {{"a", eds_cluster("a")}}));
  take_sent();
  begin();
  const std::vector<Seen> sent = take_sent();
  ASSERT_EQ(sent.size(), 3U);
  EXPECT_EQ(sent[0].one(1), "1");
  EXPECT_EQ(sent[0].one(5), "") << "nonces are of a stream";
  EXPECT_NE(sent[0].one(2), "");
  EXPECT_EQ(sent[2].all(3), std::vector<std::string>{"a"});
}

TEST_F(SubscriptionTest, DeltaAddsRemovesAndUnsubscribes) {
  start(true);
  take_sent();
  (void)subscription_->on_message(
      delta_response(ResourceKind::kCluster, "1", "n1", {{"a", eds_cluster("a")}, {"b", eds_cluster("b")}}));
  std::vector<Seen> sent = take_sent();
  ASSERT_EQ(sent.size(), 2U);
  EXPECT_EQ(sent[0].one(6), "n1");
  EXPECT_EQ(sent[1].all(3), (std::vector<std::string>{"a", "b"}));
  (void)subscription_->on_message(delta_response(ResourceKind::kCluster, "2", "n2", {}, {"b"}));
  sent = take_sent();
  ASSERT_EQ(sent.size(), 2U);
  EXPECT_EQ(sent[1].all(4), std::vector<std::string>{"b"});
  EXPECT_NE(subscription_->store().find(ResourceKind::kCluster, "a"), nullptr);
  begin();
  sent = take_sent();
  EXPECT_EQ(sent[0].all(5).size(), 1U) << "the versions that it has";
}

TEST_F(SubscriptionTest, WhatIsNoResponseEndsTheStream) {
  start(false);
  EXPECT_FALSE(subscription_->on_message("\xff\xff").ok());
  EXPECT_FALSE(
      subscription_->on_message(message([](ProtoWriter& out) { out.text(4, "type.googleapis.com/x.Y"); })).ok());
}

TEST_F(SubscriptionTest, AResourceOfAnotherTypeIsRejected) {
  start(false);
  take_sent();
  const std::string response = message([](ProtoWriter& out) {
    const size_t any = out.begin(2);
    out.text(1, url_of(ResourceKind::kListener));
    out.end(any);
    out.text(4, url_of(ResourceKind::kCluster));
  });
  EXPECT_TRUE(subscription_->on_message(response).ok());
  EXPECT_NE(take_sent()[0].one(6).find("expected envoy.config.cluster.v3.Cluster"), std::string::npos);
}

TEST_F(SubscriptionTest, TheCacheHasWhatWasAccepted) {
  start(true);
  (void)subscription_->on_message(delta_response(ResourceKind::kCluster, "7", "n1", {{"a", eds_cluster("a")}}));
  const std::string path = testing::TempDir() + "/xds_cache/resources";
  ASSERT_TRUE(save_resources(path, subscription_->store()).ok());
  const absl::StatusOr<ResourceStore> loaded = load_resources(path);
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  const ResourcePointer cluster = loaded->find(ResourceKind::kCluster, "a");
  ASSERT_NE(cluster, nullptr);
  EXPECT_EQ(cluster->version, "7");
  EXPECT_EQ(cluster->bytes, eds_cluster("a"));
  std::filesystem::resize_file(path, std::filesystem::file_size(path) - 1);
  EXPECT_FALSE(load_resources(path).ok());
  std::filesystem::remove_all(std::filesystem::path(path).parent_path());
  EXPECT_TRUE(load_resources(path)->empty());
}

}  // namespace
}  // namespace sluice::xds
