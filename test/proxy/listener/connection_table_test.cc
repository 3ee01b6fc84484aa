// The table of connections: what is found, in which order, and how little of it in one turn of the loop.
#include "proxy/listener/connection_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "proxy/listener/connection_lister.h"
#include "test/support/idle_sessions.h"

namespace sluice {
namespace {

using testing::ElementsAre;

constexpr size_t kAcceptors = 3;

class ConnectionTableTest : public testing::Test {
 protected:
  ConnectionTableTest() : acceptors_(kAcceptors), lister_(acceptors_.worker(), /*index=*/0, visit, &acceptors_) {}

  static void visit(void* context, absl::FunctionRef<void(ClientAcceptor&)> function) {
    auto& acceptors = *static_cast<test::IdleAcceptors*>(context);
    for (size_t i = 0; i < kAcceptors; ++i) function(acceptors[i]);
  }

  // Sessions with 1, 2, ... bytes of memory, in a mixed order, on all acceptors. Each began a millisecond after the one
  // before.
  void add(int count) {
    const uint64_t now = acceptors_.worker().now_ms();
    for (int i = 0; i < count; ++i) {
      ConnectionFacts facts;
      facts.kind = i % 2 == 0 ? SessionKind::kHttp1 : SessionKind::kTcp;
      facts.state = i % 4 == 0 ? ConnectionState::kIdle : ConnectionState::kForwarding;
      facts.started_ms = now - static_cast<uint64_t>(count - i);
      facts.memory_bytes = static_cast<size_t>((i * 7919) % count + 1);
      acceptors_.add_session(static_cast<size_t>(i) % kAcceptors, facts);
    }
  }
  std::shared_ptr<ConnectionTable> begin(const ConnectionQuery& query) {
    auto table = std::make_shared<ConnectionTable>(query, 1);
    lister_.begin(table);
    return table;
  }
  std::shared_ptr<ConnectionTable> list(const ConnectionQuery& query) {
    auto table = begin(query);
    while (!table->parts[0]->complete) acceptors_.worker().turn(1);
    return table;
  }
  static std::vector<size_t> memory_of(const ConnectionTable& table) {
    std::vector<size_t> all;
    for (const ConnectionRow& row : table.first_rows()) all.push_back(row.facts.memory_bytes);
    return all;
  }

  test::IdleAcceptors acceptors_;
  ConnectionLister lister_;
};

TEST_F(ConnectionTableTest, ListsSomeInEachTurn) {
  add(10'000);
  const auto table = begin({.sort = ConnectionQuery::Sort::kMemory, .limit = ConnectionQuery::kMaxLimit});
  ConnectionTablePart& part = *table->parts[0];
  uint64_t before = 0, most = part.open, turns = 1;
  while (!part.complete) {
    before = part.open;
    acceptors_.worker().turn(1);
    most = std::max(most, part.open - before);
    ++turns;
  }
  EXPECT_EQ(part.open, 10'000);
  EXPECT_LE(most, ConnectionLister::kTurnUnits);
  EXPECT_GE(turns, 10'000 / ConnectionLister::kTurnUnits);
  EXPECT_EQ(part.rows.size(), ConnectionQuery::kMaxLimit) << "memory is bounded";
  EXPECT_LE(part.rows.capacity(), 2 * ConnectionQuery::kMaxLimit);
}

TEST_F(ConnectionTableTest, Sorts) {
  add(1000);
  EXPECT_THAT(memory_of(*list({.sort = ConnectionQuery::Sort::kMemory, .limit = 3})), ElementsAre(1000, 999, 998));
  const auto oldest = list({.sort = ConnectionQuery::Sort::kAge, .limit = 2})->first_rows();
  EXPECT_GE(oldest[0].age_ms, 1000);
  EXPECT_EQ(oldest[0].facts.started_ms + 1, oldest[1].facts.started_ms);
  const auto newest = list({.limit = 2})->first_rows();
  EXPECT_EQ(newest[0].facts.started_ms, newest[1].facts.started_ms + 1);
  EXPECT_EQ(newest[0].facts.started_ms, oldest[0].facts.started_ms + 999);
}

TEST_F(ConnectionTableTest, Filters) {
  add(1000);
  EXPECT_EQ(list({.kind = SessionKind::kTcp})->parts[0]->matching, 500);
  EXPECT_EQ(list({.state = ConnectionState::kIdle})->parts[0]->matching, 250);
  EXPECT_EQ(list({.listener = "edge"})->parts[0]->matching, 1000);
  EXPECT_EQ(list({.listener = "other"})->parts[0]->matching, 0);
  EXPECT_EQ(list({.peer = *config::Cidr::parse("10.0.1.0/24")})->parts[0]->matching, 256);
  EXPECT_EQ(list({.peer = *config::Cidr::parse("10.0.0.7")})->parts[0]->matching, 1);
  EXPECT_EQ(list({.peer = *config::Cidr::parse("2001:db8::/32")})->parts[0]->matching, 0);
  const auto old = list({.min_age_ms = 900});
  EXPECT_GE(old->parts[0]->matching, 101);
  for (const ConnectionRow& row : old->first_rows()) EXPECT_GE(row.age_ms, 900);
  EXPECT_EQ(old->parts[0]->open, 1000);
}

TEST_F(ConnectionTableTest, PagesHaveEachConnectionOnce) {
  add(1000);
  std::set<uint64_t> seen;
  ConnectionQuery query{.limit = 64};
  for (int pages = 1;; ++pages) {
    const auto rows = list(query)->first_rows();
    for (const ConnectionRow& row : rows) EXPECT_TRUE(seen.insert(row.id).second);
    if (rows.size() < query.limit) {
      EXPECT_EQ(pages, 16);
      break;
    }
    query.after = rows.back().id;
    add(3);  // Those that come meanwhile are newer, so no page moves.
  }
  EXPECT_EQ(seen.size(), 1000);
}

TEST_F(ConnectionTableTest, ConnectionsMayEndMeanwhile) {
  add(3000);
  const auto table = begin({.limit = 10});
  acceptors_[1].stop_accepting();
  acceptors_[1].end_all();
  while (!table->parts[0]->complete) acceptors_.worker().turn(1);
  EXPECT_GE(table->parts[0]->open, 2000);
  EXPECT_LE(table->parts[0]->open, 3000);
  while (!acceptors_[1].idle()) acceptors_.worker().turn(1);
}

TEST_F(ConnectionTableTest, AnotherTableReplacesOneThatIsGivenUp) {
  add(3000);
  const auto first = begin({});
  first->abandoned = true;
  EXPECT_EQ(list({})->parts[0]->open, 3000);
  const auto second = begin({}), third = begin({});
  while (!third->parts[0]->complete) acceptors_.worker().turn(1);
  EXPECT_FALSE(first->parts[0]->complete);
  EXPECT_FALSE(second->parts[0]->complete);
  EXPECT_EQ(third->parts[0]->open, 3000);
}

TEST_F(ConnectionTableTest, RowsOfAllWorkersAreInOneOrder) {
  ConnectionTable table({.sort = ConnectionQuery::Sort::kMemory, .limit = 3}, 3);
  for (size_t i = 0; i < 3; ++i) {
    for (const size_t bytes : {i + 1, i + 10, i + 100}) {
      ConnectionRow& row = table.parts[i]->rows.emplace_back();
      row.facts.memory_bytes = bytes;
    }
    table.parts[i]->complete = i != 2;
  }
  EXPECT_THAT(memory_of(table), ElementsAre(101, 100, 11)) << "a part that is not complete is left out";
}

}  // namespace
}  // namespace sluice
