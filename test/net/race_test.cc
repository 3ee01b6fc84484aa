#include "test/net/loop.h"
namespace sluice {
namespace {
using namespace test;  // NOLINT
TEST(Race, CloseRightBehindReceive) {
  Loop loop;
  Pair pair = tcp_pair();
  Peer peer(pair.theirs);
  Client client(loop, pair.ours);
  peer.send("hello");
  client.socket.start_reading();
  loop->turn(0);
  client.close();
  EXPECT_TRUE(client.wait_closed());
}
TEST(Race, StopRightBehindReceive) {
  Loop loop;
  Pair pair = tcp_pair();
  Peer peer(pair.theirs);
  Client client(loop, pair.ours);
  peer.send("hello");
  client.socket.start_reading();
  loop->turn(0);
  client.socket.stop_reading();
  loop.settle();
  EXPECT_EQ(client.heard.received, "hello");
  for (int i=0;i<100;++i){ peer.send("hello");
  loop.settle(1);}
  EXPECT_EQ(client.heard.received, "hello");
  peer.close();
  loop.settle();
}
}  // namespace
}  // namespace sluice
