#include "proxy/xds/subscription.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "proxy/common/proto_reader.h"
#include "proxy/common/proto_writer.h"
#include "proxy/xds/proto_duration.h"
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
        std::move(store), now_ms_,
        [this](const ResourceStore& candidate, ResourceKeys& blamed) {
          applied_.push_back(candidate);
          return judge_ ? judge_(candidate, blamed) : verdict_;
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
  absl::Status on_message(const std::string& text) { return subscription_->on_message(text, now_ms_); }
  std::vector<Seen> take_sent() { return std::exchange(sent_, {}); }

  absl::Status verdict_;
  Subscription::Apply judge_;  // In the place of verdict_.
  XdsCounters counters_;
  std::vector<ResourceStore> applied_;
  std::vector<Seen> sent_;
  std::optional<Subscription> subscription_;
  uint64_t now_ms_ = 1000;
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
  EXPECT_TRUE(
      on_message(state_response(ResourceKind::kCluster, "1", "n1", {{"a", eds_cluster("a")}, {"b", eds_cluster("b")}}))
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
  EXPECT_TRUE(on_message(state_response(ResourceKind::kCluster, "1", "n1", {{"a", eds_cluster("a")}})).ok());
  take_sent();
  verdict_ = absl::InvalidArgumentError("cluster b: bad");
  EXPECT_TRUE(on_message(state_response(ResourceKind::kCluster, "2", "n2", {{"b", eds_cluster("b")}})).ok());
  const std::vector<Seen> sent = take_sent();
  ASSERT_EQ(sent.size(), 1U);
  EXPECT_EQ(sent[0].one(1), "1");
  EXPECT_EQ(sent[0].one(5), "n2");
  EXPECT_NE(sent[0].one(6).find("cluster b: bad"), std::string::npos);
  EXPECT_NE(subscription_->store().find(ResourceKind::kCluster, "a"), nullptr);
  EXPECT_EQ(subscription_->store().find(ResourceKind::kCluster, "b"), nullptr);
}

// Defect: one resource that cannot be used kept all others of its response from being used.
TEST_F(SubscriptionTest, TheRestOfARejectedResponseTakesEffect) {
  for (const bool is_delta : {false, true}) {
    SCOPED_TRACE(is_delta);
    const auto response = is_delta ? [](ResourceKind kind, std::string_view version, std::string_view nonce,
                                        const Resources& all) { return delta_response(kind, version, nonce, all); }
                                   : state_response;
    const uint32_t error = is_delta ? 7 : 6;
    judge_ = [](const ResourceStore& candidate, ResourceKeys& blamed) -> absl::Status {
      const ResourcePointer b = candidate.find(ResourceKind::kCluster, "b");
      if (b == nullptr || b->version == "1") return absl::OkStatus();
      blamed.emplace(ResourceKind::kCluster, "b");
      blamed.emplace(ResourceKind::kListener, "none");
      return absl::InvalidArgumentError("cluster b: bad");
    };
    start(is_delta);
    (void)on_message(response(ResourceKind::kCluster, "1", "n1", {{"b", eds_cluster("b")}}));
    take_sent();
    (void)on_message(response(ResourceKind::kCluster, "2", "n2",
                              {{"a", eds_cluster("a")}, {"b", eds_cluster("b")}, {"c", eds_cluster("c")}}));
    const std::vector<Seen> sent = take_sent();
    ASSERT_EQ(sent.size(), 2U);
    EXPECT_NE(sent[0].one(error).find("cluster b: bad"), std::string::npos);
    if (!is_delta) {
      EXPECT_EQ(sent[0].one(1), "1") << "the version of the last response that was accepted";
    }
    EXPECT_EQ(sent[1].all(3),
              is_delta ? (std::vector<std::string>{"a", "c"}) : (std::vector<std::string>{"a", "b", "c"}));
    const ResourceStore& store = subscription_->store();
    EXPECT_EQ(store.find(ResourceKind::kCluster, "a")->version, "2");
    EXPECT_EQ(store.find(ResourceKind::kCluster, "b")->version, "1");
    EXPECT_EQ(store.find(ResourceKind::kCluster, "c")->version, "2");
    EXPECT_EQ(counters_.rejected[static_cast<size_t>(ResourceKind::kCluster)].value(), is_delta ? 2U : 1U);
  }
}

// A cluster can be unusable for the endpoints that it refers to. Only they are put back.
TEST_F(SubscriptionTest, WhatABlamedResourceRefersToIsPutBack) {
  judge_ = [](const ResourceStore& candidate, ResourceKeys& blamed) -> absl::Status {
    if (candidate.find(ResourceKind::kEndpoints, "b") == nullptr) return absl::OkStatus();
    blamed.emplace(ResourceKind::kCluster, "b");
    return absl::InvalidArgumentError("cluster b: bad endpoints");
  };
  start(false);
  (void)on_message(
      state_response(ResourceKind::kCluster, "1", "n1", {{"a", eds_cluster("a")}, {"b", eds_cluster("b")}}));
  take_sent();
  (void)on_message(state_response(ResourceKind::kEndpoints, "1", "n2", {{"a", endpoints("a")}, {"b", endpoints("b")}}));
  EXPECT_NE(take_sent()[0].one(6), "");
  EXPECT_NE(subscription_->store().find(ResourceKind::kEndpoints, "a"), nullptr);
  EXPECT_EQ(subscription_->store().find(ResourceKind::kEndpoints, "b"), nullptr);
  EXPECT_NE(subscription_->store().find(ResourceKind::kCluster, "b"), nullptr);
}

TEST_F(SubscriptionTest, AResponseWithNothingUsableHasNoEffect) {
  std::set<std::string> bad = {"a", "b"};
  judge_ = [&](const ResourceStore& candidate, ResourceKeys& blamed) -> absl::Status {
    for (const std::string& name : bad) {
      if (candidate.find(ResourceKind::kCluster, name) == nullptr) continue;
      blamed.emplace(ResourceKind::kCluster, name);  // One at a time.
      return absl::InvalidArgumentError("bad");
    }
    return absl::OkStatus();
  };
  start(false);
  (void)on_message(
      state_response(ResourceKind::kCluster, "1", "n1", {{"a", eds_cluster("a")}, {"b", eds_cluster("b")}}));
  EXPECT_TRUE(subscription_->store().empty());
  const ResourceKeys refused = {{ResourceKind::kCluster, "a"}, {ResourceKind::kCluster, "b"}};
  EXPECT_EQ(subscription_->store().refused(), refused);
  ASSERT_EQ(applied_.size(), 3U) << "the same resources, so that nothing waits for what is refused";
  EXPECT_TRUE(applied_.back().empty());
  applied_.clear();
  // A reason that is about none of its resources.
  judge_ = [](const ResourceStore&, ResourceKeys& blamed) {
    blamed.emplace(ResourceKind::kListener, "x");
    return absl::InvalidArgumentError("bad");
  };
  (void)on_message(state_response(ResourceKind::kCluster, "2", "n2", {{"c", eds_cluster("c")}}));
  EXPECT_TRUE(subscription_->store().empty());
  EXPECT_EQ(applied_.size(), 1U);
  // A list of all clusters says anew which there are.
  judge_ = nullptr;
  (void)on_message(state_response(ResourceKind::kCluster, "3", "n3", {{"a", eds_cluster("a")}}));
  EXPECT_EQ(subscription_->store().refused(), ResourceKeys());
}

TEST_F(SubscriptionTest, AListOfAllRemovesWhatItLacksAndOneByNameDoesNot) {
  start(false);
  (void)on_message(
      state_response(ResourceKind::kCluster, "1", "n1", {{"a", eds_cluster("a")}, {"b", eds_cluster("b")}}));
  (void)on_message(state_response(ResourceKind::kEndpoints, "1", "n2", {{"a", endpoints("a")}, {"b", endpoints("b")}}));
  (void)on_message(state_response(ResourceKind::kEndpoints, "2", "n3", {{"a", endpoints("a")}}));
  EXPECT_NE(subscription_->store().find(ResourceKind::kEndpoints, "b"), nullptr);
  (void)on_message(state_response(ResourceKind::kCluster, "2", "n4", {{"a", eds_cluster("a")}}));
  EXPECT_EQ(subscription_->store().find(ResourceKind::kCluster, "b"), nullptr);
  EXPECT_EQ(subscription_->store().find(ResourceKind::kEndpoints, "b"), nullptr) << "nobody refers to it any more";
}

TEST_F(SubscriptionTest, ANewStreamSaysWhatItHas) {
  start(false);
  (void)on_message(state_response(ResourceKind::kCluster, "1", "n1", {{"a", eds_cluster("a")}}));
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
  (void)on_message(
      delta_response(ResourceKind::kCluster, "1", "n1", {{"a", eds_cluster("a")}, {"b", eds_cluster("b")}}));
  std::vector<Seen> sent = take_sent();
  ASSERT_EQ(sent.size(), 2U);
  EXPECT_EQ(sent[0].one(6), "n1");
  EXPECT_EQ(sent[1].all(3), (std::vector<std::string>{"a", "b"}));
  (void)on_message(delta_response(ResourceKind::kCluster, "2", "n2", {}, {"b"}));
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
  EXPECT_FALSE(on_message("\xff\xff").ok());
  EXPECT_FALSE(on_message(message([](ProtoWriter& out) { out.text(4, "type.googleapis.com/x.Y"); })).ok());
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
  EXPECT_TRUE(on_message(response).ok());
  EXPECT_NE(take_sent()[0].one(6).find("expected envoy.config.cluster.v3.Cluster"), std::string::npos);
}

TEST_F(SubscriptionTest, TheCacheHasWhatWasAccepted) {
  start(true);
  (void)on_message(delta_response(ResourceKind::kCluster, "7", "n1", {{"a", eds_cluster("a")}}));
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

// ---- Times to live ----

// Resource { version = 1, resource = 2, name = 3, ttl = 6 }; one without `bytes` is a sign of life.
void write_living(ProtoWriter& out, ResourceKind kind, std::string_view name, std::string_view version,
                  std::string_view bytes, std::optional<uint64_t> ttl_ms) {
  if (!version.empty()) out.text(1, version);
  if (!bytes.empty()) {
    const size_t any = out.begin(2);
    out.text(1, url_of(kind));
    out.text(2, bytes);
    out.end(any);
  }
  out.text(3, name);
  if (ttl_ms) write_duration_ms(out, 6, *ttl_ms);
}

std::string living(bool is_delta, std::string_view nonce, std::string_view name, std::string_view version,
                   std::string_view bytes, std::optional<uint64_t> ttl_ms) {
  return message([&](ProtoWriter& out) {
    if (!is_delta) out.text(1, version);
    const size_t wrapper = out.begin(2);
    if (!is_delta) {
      out.text(1, "type.googleapis.com/envoy.service.discovery.v3.Resource");
      const size_t resource = out.begin(2);
      write_living(out, ResourceKind::kCluster, name, "", bytes, ttl_ms);
      out.end(resource);
    } else {
      write_living(out, ResourceKind::kCluster, name, version, bytes, ttl_ms);
    }
    out.end(wrapper);
    out.text(4, url_of(ResourceKind::kCluster));
    out.text(5, nonce);
  });
}

class TimesToLive : public SubscriptionTest, public testing::WithParamInterface<bool> {
 protected:
  bool has(std::string_view name) const { return subscription_->store().find(ResourceKind::kCluster, name) != nullptr; }
  absl::Status send(std::string_view nonce, std::string_view version, std::string_view bytes,
                    std::optional<uint64_t> ttl_ms) {
    return on_message(living(GetParam(), nonce, "a", version, bytes, ttl_ms));
  }
};

TEST_P(TimesToLive, WhatIsNotRenewedIsRemoved) {
  start(GetParam());
  EXPECT_EQ(subscription_->due_ms(), std::nullopt);
  ASSERT_TRUE(send("n1", "1", eds_cluster("a"), 2000).ok());
  EXPECT_EQ(subscription_->due_ms(), 3000U);
  take_sent();
  subscription_->expire(2999);
  EXPECT_TRUE(has("a"));
  subscription_->expire(3000);
  EXPECT_FALSE(has("a"));
  EXPECT_FALSE(applied_.back().find(ResourceKind::kCluster, "a"));
  EXPECT_EQ(counters_.expired.value(), 1U);
  EXPECT_EQ(subscription_->due_ms(), std::nullopt);
  const std::vector<Seen> sent = take_sent();
  ASSERT_EQ(sent.size(), 1U) << "its endpoints are not wanted any more";
  EXPECT_EQ(sent[0].one(GetParam() ? 2 : 4), url_of(ResourceKind::kEndpoints));
}

TEST_P(TimesToLive, ASignOfLifeRenewsAndChangesNothing) {
  start(GetParam());
  ASSERT_TRUE(on_message(GetParam() ? delta_response(ResourceKind::kCluster, "1", "n0", {{"b", eds_cluster("b")}})
                                    : state_response(ResourceKind::kCluster, "1", "n0", {{"b", eds_cluster("b")}}))
                  .ok());
  ASSERT_TRUE(send("n1", "1", eds_cluster("a"), 2000).ok());
  const bool both = GetParam();  // The state of the world has just left out the other one.
  const size_t applied = applied_.size();
  now_ms_ = 2500;
  take_sent();
  ASSERT_TRUE(send("n2", "1", "", 2000).ok());
  EXPECT_EQ(take_sent().size(), 1U) << "it is accepted";
  EXPECT_EQ(applied_.size(), applied);
  EXPECT_EQ(subscription_->due_ms(), 4500U);
  EXPECT_TRUE(has("a"));
  EXPECT_EQ(has("b"), both);
  ASSERT_TRUE(send("n3", "other", "", 9000).ok());
  EXPECT_EQ(subscription_->due_ms(), 4500U) << "it is of another version";
  subscription_->expire(4500);
  EXPECT_FALSE(has("a"));
}

TEST_P(TimesToLive, EndWithAResourceWithoutOne) {
  start(GetParam());
  ASSERT_TRUE(send("n1", "1", eds_cluster("a"), 2000).ok());
  ASSERT_TRUE(send("n2", "1", "", std::nullopt).ok());
  EXPECT_EQ(subscription_->due_ms(), std::nullopt);
  ASSERT_TRUE(send("n3", "2", eds_cluster("a"), 0).ok());
  EXPECT_EQ(subscription_->due_ms(), now_ms_);
  ASSERT_TRUE(send("n4", "3", eds_cluster("a"), std::nullopt).ok());
  EXPECT_EQ(subscription_->due_ms(), std::nullopt);
  subscription_->expire(UINT64_MAX);
  EXPECT_TRUE(has("a"));
}

TEST_P(TimesToLive, EndAlsoWithoutAStream) {
  start(GetParam());
  ASSERT_TRUE(send("n1", "1", eds_cluster("a"), 2000).ok());
  take_sent();
  subscription_->end();
  subscription_->expire(3000);
  EXPECT_FALSE(has("a"));
  EXPECT_TRUE(take_sent().empty());
}

TEST_P(TimesToLive, AreTriedAgainIfTheRestCannotBeUsed) {
  start(GetParam());
  ASSERT_TRUE(send("n1", "1", eds_cluster("a"), 2000).ok());
  verdict_ = absl::UnavailableError("not now");
  subscription_->expire(3000);
  EXPECT_TRUE(has("a"));
  verdict_ = absl::OkStatus();
  subscription_->expire(subscription_->due_ms().value());
  EXPECT_FALSE(has("a"));
}

TEST_P(TimesToLive, ThatAreNoneAreRejected) {
  start(GetParam());
  take_sent();
  ASSERT_TRUE(send("n1", "1", eds_cluster("a"), 20'000'000'000'000'000).ok());
  const std::vector<Seen> sent = take_sent();
  EXPECT_NE(sent[0].one(GetParam() ? 7 : 6).find("its time to live (ttl) is no duration"), std::string::npos);
  EXPECT_FALSE(has("a"));
}

TEST_P(TimesToLive, BeginAnewWithTheCache) {
  start(GetParam());
  ASSERT_TRUE(send("n1", "1", eds_cluster("a"), 2000).ok());
  const std::string path = testing::TempDir() + "/xds_cache_ttl" + (GetParam() ? "1" : "0") + "/resources";
  ASSERT_TRUE(save_resources(path, subscription_->store()).ok());
  now_ms_ = 9000;
  start(GetParam(), load_resources(path).value());
  EXPECT_EQ(subscription_->due_ms(), 11000U);
  std::filesystem::remove_all(std::filesystem::path(path).parent_path());
}

INSTANTIATE_TEST_SUITE_P(Protocols, TimesToLive, testing::Values(false, true),
                         [](const testing::TestParamInfo<bool>& is_delta) {
                           return is_delta.param ? "Incremental" : "StateOfTheWorld";
                         });

}  // namespace
}  // namespace sluice::xds
