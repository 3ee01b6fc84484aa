// How acceptors visit their sessions: some in each turn of the loop, however many acceptors do.
#include <gtest/gtest.h>

#include <algorithm>

#include "test/net/loop.h"
#include "test/support/idle_sessions.h"

namespace sluice {
namespace {

constexpr uint32_t kMostInTurn = 250;

// Turns the loop until all sessions are gone. Returns the most that have gone in one turn.
uint32_t most_in_turn(test::IdleAcceptors& acceptors) {
  uint32_t most = 0;
  while (acceptors.sessions() > 0) {
    const uint32_t before = acceptors.sessions();
    acceptors.worker().turn(0);
    most = std::max(most, before - acceptors.sessions());
  }
  return most;
}

TEST(VisitsTest, DrainIsSpreadOverTurns) {
  test::IdleAcceptors acceptors(3);
  for (size_t i = 0; i < 3; ++i) acceptors.add_sessions(i, 1000);
  for (size_t i = 0; i < 3; ++i) {
    acceptors[i].stop_accepting();
    acceptors[i].drain();
  }
  EXPECT_EQ(acceptors.sessions(), 3000);
  EXPECT_EQ(most_in_turn(acceptors), kMostInTurn);
  EXPECT_EQ(acceptors.resets().by_kind[static_cast<size_t>(SessionKind::kHttp1)].value(), 0);
}

TEST(VisitsTest, EndIsSpreadOverTurnsAndCounted) {
  test::IdleAcceptors acceptors(1);
  acceptors.add_sessions(0, 1001);
  acceptors[0].stop_accepting();
  acceptors[0].end_all();
  EXPECT_EQ(most_in_turn(acceptors), kMostInTurn);
  EXPECT_EQ(acceptors.resets().by_kind[static_cast<size_t>(SessionKind::kHttp1)].value(), 1001);
  EXPECT_EQ(acceptors.resets().by_kind[static_cast<size_t>(SessionKind::kTcp)].value(), 0);
}

// Sessions that have moved are those of the successor: they are not drained with the rest.
TEST(VisitsTest, MovedSessionsStay) {
  test::IdleAcceptors acceptors(2);
  acceptors.add_sessions(0, 600);
  acceptors[0].hand_over(acceptors[1]);
  while (!acceptors[0].idle()) acceptors.worker().turn(0);
  acceptors[0].drain_all();
  for (int i = 0; i < 5; ++i) acceptors.worker().turn(0);
  EXPECT_EQ(acceptors.sessions(), 600);
  acceptors[1].stop_accepting();
  acceptors[1].drain_all();
  EXPECT_EQ(most_in_turn(acceptors), kMostInTurn);
}

// Defect: a session whose connection came while accepting stopped stayed with the configuration before the reload.
TEST(VisitsTest, LateSessionMovesToo) {
  test::IdleAcceptors acceptors(2);
  acceptors[0].start();
  acceptors.worker().turn(0);
  acceptors[0].hand_over(acceptors[1]);
  test::Peer peer(test::tcp_connect(acceptors.port(0)));
  for (int i = 0; i < 100 && !acceptors[0].idle(); ++i) acceptors.worker().turn(1);
  EXPECT_EQ(acceptors.sessions(), 1u);
  EXPECT_TRUE(acceptors[0].idle());
}

// A change of mind in the middle: what was to move is drained.
TEST(VisitsTest, DrainReplacesMove) {
  test::IdleAcceptors acceptors(2);
  acceptors.add_sessions(0, 600);
  acceptors[0].hand_over(acceptors[1]);
  acceptors.worker().turn(0);
  acceptors[0].drain();
  while (!acceptors[0].idle()) acceptors.worker().turn(0);
  EXPECT_EQ(acceptors.sessions(), kMostInTurn);
}

}  // namespace
}  // namespace sluice
