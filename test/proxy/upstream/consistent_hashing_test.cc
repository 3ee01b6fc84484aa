// Maglev's table and the hash ring: the shares of members, and whose keys move when the members change.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <map>
#include <random>
#include <set>
#include <vector>

#include "proxy/upstream/hash_ring.h"
#include "proxy/upstream/maglev_table.h"
#include "proxy/upstream/stable_hash.h"

namespace sluice {
namespace {

constexpr uint64_t kKeys = 40'000;

HashMember member(uint32_t index, uint32_t weight = 1) {
  return {.id = stable_hash("10.0.0." + std::to_string(index) + ":80"), .weight = weight, .index = index};
}

std::vector<HashMember> members(uint32_t count) {
  std::vector<HashMember> all;
  for (uint32_t i = 0; i < count; ++i) all.push_back(member(i));
  return all;
}

/// The owner of each key, with those in `gone` passed over.
template <typename Table>
std::vector<uint32_t> owners(const Table& table, const std::set<uint32_t>& gone = {}) {
  std::vector<uint32_t> all;
  for (uint64_t key = 0; key < kKeys; ++key) {
    all.push_back(table.find(mixed(key), [&](uint32_t i) { return !gone.contains(i); }).value());
  }
  return all;
}

std::map<uint32_t, double> shares(const std::vector<uint32_t>& owners) {
  std::map<uint32_t, double> shares;
  for (const uint32_t owner : owners) shares[owner] += 1.0 / kKeys;
  return shares;
}

double moved(const std::vector<uint32_t>& before, const std::vector<uint32_t>& after) {
  size_t count = 0;
  for (size_t i = 0; i < before.size(); ++i) count += before[i] != after[i];
  return static_cast<double>(count) / static_cast<double>(before.size());
}

template <typename Table>
class ConsistentHashingTest : public ::testing::Test {};
using Tables = ::testing::Types<MaglevTable, HashRing>;
TYPED_TEST_SUITE(ConsistentHashingTest, Tables);

// The deviation from equal shares: 65,537 slots are dealt in turn, 160 points each are random.
template <typename Table>
constexpr double kUneven = std::is_same_v<Table, MaglevTable> ? 0.05 : 0.35;

TYPED_TEST(ConsistentHashingTest, EqualMembersHaveEqualShares) {
  for (const uint32_t count : {1u, 2u, 10u, 50u}) {
    for (const auto& [index, share] : shares(owners(TypeParam(members(count))))) {
      // Six standard deviations of the keys themselves, and the table's.
      EXPECT_NEAR(share * count, 1, kUneven<TypeParam> + 6 * std::sqrt(count / double{kKeys})) << index << "/" << count;
    }
  }
}

TYPED_TEST(ConsistentHashingTest, SharesFollowWeights) {
  const std::vector<uint32_t> weights = {1, 2, 3, 10, 1000, 4};
  std::vector<HashMember> all;
  for (uint32_t i = 0; i < weights.size(); ++i) all.push_back(member(i, weights[i]));
  const auto found = shares(owners(TypeParam(all)));
  for (uint32_t i = 0; i < weights.size(); ++i) {
    const double p = weights[i] / 1020.0;
    EXPECT_NEAR(found.at(i), p, p * kUneven<TypeParam> + 6 * std::sqrt(p / kKeys)) << i;
  }
}

// Another instance, with the same endpoints in another order, sends each key to the same one.
TYPED_TEST(ConsistentHashingTest, OrderDoesNotMatter) {
  std::vector<HashMember> all = members(20);
  for (HashMember& each : all) each.weight = 1 + each.index % 3;
  const auto before = owners(TypeParam(all));
  std::shuffle(all.begin(), all.end(), std::mt19937(5));
  EXPECT_EQ(owners(TypeParam(all)), before);
}

// Only the keys of the endpoint that is passed over move; to all the others, in equal parts.
TYPED_TEST(ConsistentHashingTest, PassingOverMovesNoOtherKeys) {
  constexpr uint32_t kCount = 10;
  const TypeParam table(members(kCount));
  const auto before = owners(table), after = owners(table, {3});
  std::map<uint32_t, double> takers;
  for (uint64_t key = 0; key < kKeys; ++key) {
    if (before[key] == 3) {
      takers[after[key]] += 1;
    } else {
      ASSERT_EQ(after[key], before[key]);
    }
  }
  EXPECT_EQ(takers.size(), kCount - 1);
  const double orphans = shares(before).at(3) * kKeys;
  for (const auto& [index, keys] : takers) EXPECT_NEAR(keys / orphans, 1.0 / (kCount - 1), 0.08) << index;
}

// When an endpoint leaves for good, or is added, about its own share moves, and little else.
TYPED_TEST(ConsistentHashingTest, ChangedSetMovesFewKeys) {
  constexpr uint32_t kCount = 20;
  std::vector<HashMember> fewer = members(kCount);
  const auto before = owners(TypeParam(fewer));
  const double share = shares(before).at(7);
  fewer.erase(fewer.begin() + 7);
  const double at_leaving = moved(before, owners(TypeParam(fewer)));
  const double at_coming = moved(before, owners(TypeParam(members(kCount + 1))));
  std::printf("of %u one leaves: %.2f %% of the keys move, %.2f %% were its own; one comes: %.2f %%\n", kCount,
              at_leaving * 100, share * 100, at_coming * 100);
  EXPECT_GE(at_leaving, share - 1e-9);
  EXPECT_LE(at_leaving, share + 0.03);
  EXPECT_LE(at_coming, 1.0 / (kCount + 1) * (1 + kUneven<TypeParam>)+0.03);
}

TYPED_TEST(ConsistentHashingTest, NoMembers) {
  const auto anybody = [](uint32_t) { return true; };
  EXPECT_FALSE(TypeParam().find(1, anybody));
  EXPECT_FALSE(TypeParam(members(0)).find(1, anybody));
  size_t calls = 0;
  EXPECT_FALSE(TypeParam(members(5)).find(1, [&](uint32_t) {
    ++calls;
    return false;
  }));
  EXPECT_EQ(calls, kMaxHashSteps);
}

TYPED_TEST(ConsistentHashingTest, EdgesOfTheHash) {
  const TypeParam table(members(3));
  for (const uint64_t hash : {uint64_t{0}, uint64_t{65536}, uint64_t{65537}, UINT64_MAX, UINT64_MAX - 1}) {
    EXPECT_LT(table.find(hash, [](uint32_t) { return true; }).value(), 3u);
    // On past the end.
    size_t steps = 0;
    table.find(hash, [&](uint32_t) { return ++steps == kMaxHashSteps; });
    EXPECT_EQ(steps, kMaxHashSteps);
  }
}

// The paper's procedure: each slot has an owner, and equal members differ by at most one slot.
TEST(MaglevTableTest, SlotsAreDealtInTurn) {
  for (const uint32_t count : {1u, 3u, 100u, 1000u}) {
    std::vector<uint32_t> slots(count);
    const MaglevTable table(members(count));
    for (uint64_t slot = 0; slot < MaglevTable::kSlots; ++slot) {
      ++slots[table.find(slot, [](uint32_t) { return true; }).value()];
    }
    const auto [least, most] = std::minmax_element(slots.begin(), slots.end());
    EXPECT_LE(*most - *least, 1u) << count;
  }
}

TEST(MaglevTableTest, MaximumNumberOfMembers) {
  const MaglevTable table(members(MaglevTable::kMaxMembers));
  std::set<uint32_t> found;
  for (uint64_t slot = 0; slot < MaglevTable::kSlots; ++slot) {
    found.insert(table.find(slot, [](uint32_t) { return true; }).value());
  }
  EXPECT_EQ(found.size(), MaglevTable::kMaxMembers);
}

TEST(HashRingTest, PointsAreBounded) {
  EXPECT_EQ(HashRing(members(3)).points(), 3 * HashRing::kPointsPerWeight);
  for (const uint32_t count : {1u, 2u, 300u, 3000u}) {
    std::vector<HashMember> heavy = members(count);
    for (HashMember& each : heavy) each.weight = 1000;
    heavy.push_back(member(count, 1));
    const HashRing ring(heavy);
    EXPECT_LE(ring.points(), HashRing::kMaxPoints) << count;
    EXPECT_GT(ring.points(), HashRing::kMaxPoints / 4) << count;
  }
}

}  // namespace
}  // namespace sluice
