#include "proxy/common/connection_limits.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/un.h>

#include <atomic>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

namespace sluice {
namespace {

sockaddr_storage address(const std::string& text) {
  sockaddr_storage storage{};
  sockaddr_in ip4{.sin_family = AF_INET};
  sockaddr_in6 ip6{.sin6_family = AF_INET6};
  if (inet_pton(AF_INET, text.c_str(), &ip4.sin_addr) == 1) {
    std::memcpy(&storage, &ip4, sizeof ip4);
  } else {
    EXPECT_EQ(inet_pton(AF_INET6, text.c_str(), &ip6.sin6_addr), 1) << text;
    std::memcpy(&storage, &ip6, sizeof ip6);
  }
  return storage;
}

Source source(const std::string& text) {
  const sockaddr_storage storage = address(text);
  Source result;
  EXPECT_TRUE(Source::from(reinterpret_cast<const sockaddr*>(&storage), result));
  return result;
}

// ---- Source ----

TEST(SourceTest, Ip4IsTheWholeAddress) {
  EXPECT_EQ(source("192.0.2.1"), source("192.0.2.1"));
  EXPECT_NE(source("192.0.2.1"), source("192.0.2.2"));
  EXPECT_FALSE(source("192.0.2.1").ipv6);
}

TEST(SourceTest, Ip6IsTheFirstHalf) {
  EXPECT_EQ(source("2001:db8:1:2::1"), source("2001:db8:1:2:ffff:ffff:ffff:ffff"));
  EXPECT_NE(source("2001:db8:1:2::1"), source("2001:db8:1:3::1"));
  EXPECT_TRUE(source("2001:db8::1").ipv6);
}

TEST(SourceTest, MappedCountsAsIp4) {
  EXPECT_EQ(source("::ffff:192.0.2.1"), source("192.0.2.1"));
  EXPECT_NE(source("::ffff:192.0.2.1"), source("::ffff:192.0.2.2"));
}

// Equal bytes must not make an IPv6 network the same source as an IPv4 address.
TEST(SourceTest, FamiliesAreDistinct) {
  EXPECT_EQ(source("c000:201::").bytes, source("192.0.2.1").bytes);
  EXPECT_NE(source("c000:201::"), source("192.0.2.1"));
  // The loopback addresses of both families are two sources.
  EXPECT_NE(source("::1"), source("0.0.0.0"));
}

TEST(SourceTest, PortDoesNotMatter) {
  sockaddr_storage a = address("192.0.2.1"), b = a;
  reinterpret_cast<sockaddr_in*>(&b)->sin_port = htons(999);
  Source x, y;
  ASSERT_TRUE(Source::from(reinterpret_cast<sockaddr*>(&a), x));
  ASSERT_TRUE(Source::from(reinterpret_cast<sockaddr*>(&b), y));
  EXPECT_EQ(x, y);
}

TEST(SourceTest, UnixSocketsHaveNone) {
  const sockaddr_un un{.sun_family = AF_UNIX, .sun_path = "/run/x"};
  Source result;
  EXPECT_FALSE(Source::from(reinterpret_cast<const sockaddr*>(&un), result));
}

// ---- ConnectionLimit ----

TEST(ConnectionLimitTest, Bounds) {
  ConnectionLimit limit(2);
  EXPECT_TRUE(limit.enter());
  EXPECT_TRUE(limit.enter());
  EXPECT_FALSE(limit.enter());
  EXPECT_FALSE(limit.enter());
  EXPECT_EQ(limit.active(), 2u);
  limit.leave();
  EXPECT_TRUE(limit.enter());
  limit.leave();
  limit.leave();
  EXPECT_EQ(limit.active(), 0u);
}

TEST(ConnectionLimitTest, ZeroIsUnlimited) {
  ConnectionLimit limit(0);
  for (int i = 0; i < 1000; ++i) EXPECT_TRUE(limit.enter());
  EXPECT_EQ(limit.active(), 1000u);
}

TEST(ConnectionLimitTest, HoldsAcrossThreads) {
  ConnectionLimit limit(3);
  std::atomic<int> inside{0}, most{0}, entered{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 6; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 5000; ++i) {
        if (!limit.enter()) continue;
        const int now = inside.fetch_add(1) + 1;
        int seen = most.load();
        while (now > seen && !most.compare_exchange_weak(seen, now)) {
        }
        entered.fetch_add(1);
        if (i % 16 == 0) std::this_thread::yield();
        inside.fetch_sub(1);
        limit.leave();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_LE(most.load(), 3);
  EXPECT_GT(entered.load(), 0);
  EXPECT_EQ(limit.active(), 0u);
}

// ---- SourceLimit ----

TEST(SourceLimitTest, CountsEachSourceSeparately) {
  SourceLimit limit(2);
  EXPECT_TRUE(limit.enabled());
  const Source a = source("192.0.2.1"), b = source("192.0.2.2");
  SourceLimit::Place first = limit.take_place(a), second = limit.take_place(a);
  EXPECT_TRUE(first);
  EXPECT_TRUE(second);
  EXPECT_FALSE(limit.take_place(a));
  EXPECT_TRUE(limit.take_place(b));
  EXPECT_FALSE(limit.take_place(source("::ffff:192.0.2.1")));
  first.reset();
  first = limit.take_place(a);
  EXPECT_TRUE(first);
  EXPECT_FALSE(limit.take_place(a));
  const SourceLimit::Place c = limit.take_place(source("2001:db8::1")), d = limit.take_place(source("2001:db8::2"));
  EXPECT_TRUE(c);
  EXPECT_TRUE(d);
  EXPECT_FALSE(limit.take_place(source("2001:db8::3")));
}

TEST(SourceLimitTest, ZeroKeepsNothing) {
  const SourceLimit limit(0);
  EXPECT_FALSE(limit.enabled());
}

TEST(SourceLimitTest, ManySources) {
  SourceLimit limit(1);
  for (int round = 0; round < 2; ++round) {
    std::vector<SourceLimit::Place> places;
    for (uint32_t i = 0; i < 5000; ++i) {
      const Source one =
          source("10." + std::to_string(i >> 16) + "." + std::to_string(i >> 8 & 255) + "." + std::to_string(i & 255));
      places.push_back(limit.take_place(one));
      ASSERT_TRUE(places.back());
      ASSERT_FALSE(limit.take_place(one));
    }
  }
}

TEST(SourceLimitTest, HoldsAcrossThreads) {
  constexpr uint32_t kLimit = 2;
  constexpr int kSources = 5;
  SourceLimit limit(kLimit);
  std::array<Source, kSources> sources;
  for (size_t i = 0; i < kSources; ++i) sources[i] = source("192.0.2." + std::to_string(i));
  std::array<std::atomic<int>, kSources> inside{};
  std::atomic<bool> exceeded{false};
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < 6; ++t) {
    threads.emplace_back([&, t] {
      for (unsigned i = 0; i < 5000; ++i) {
        const size_t s = (i * 7 + t) % kSources;
        const SourceLimit::Place place = limit.take_place(sources[s]);
        if (!place) continue;
        if (inside[s].fetch_add(1) + 1 > static_cast<int>(kLimit)) exceeded.store(true);
        if (i % 16 == 0) std::this_thread::yield();
        inside[s].fetch_sub(1);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_FALSE(exceeded.load());
  // All have left: each has its whole share again.
  for (const Source& s : sources) {
    std::vector<SourceLimit::Place> places;
    for (uint32_t i = 0; i < kLimit; ++i) {
      places.push_back(limit.take_place(s));
      EXPECT_TRUE(places.back());
    }
    EXPECT_FALSE(limit.take_place(s));
  }
}

}  // namespace
}  // namespace sluice
