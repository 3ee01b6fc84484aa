// The memory that a socket keeps for a peer that does not read, or that has not acknowledged: it is bounded, and
// shrinks in time.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "test/net/loop.h"

namespace sluice {
namespace {

using test::Client;
using test::Loop;
using test::Pair;
using test::Peer;
using test::stream_bytes;

constexpr size_t kMiB = size_t{1} << 20;

/// `bytes` as a TLS record that was sealed in place: after a header and before a tag that share a small chunk, in a
/// chunk of the size that receives have.
Buffer record_of(ChunkPool& pool, std::string_view bytes) {
  constexpr size_t kHeader = 5, kTag = 16, kReceived = size_t{16} * 1024;
  Lease around(ChunkRef::take(pool.get_metadata(kHeader + kTag)), 0, 0);
  around.grow_back(kHeader + kTag);
  std::fill_n(around.data(), kHeader + kTag, std::byte{'r'});
  Lease tag = around.split_off(kHeader);
  Lease body(ChunkRef::take(pool.get(kReceived)), 0, 0);
  body.grow_back(bytes.size());
  std::copy_n(reinterpret_cast<const std::byte*>(bytes.data()), bytes.size(), body.data());
  Buffer record;
  record.append(std::move(around));
  record.append(std::move(body));
  record.append(std::move(tag));
  return record;
}

// Defect: only pieces of one window were packed. A TLS record has three, so each byte that a client sent in a record of
// its own kept a whole receive chunk behind a peer that did not read, and the marks, which count bytes, never stopped
// it.
TEST(PinnedMemory, RecordsOfOneByteBehindASlowPeerArePacked) {
  Loop loop;
  const Pair pair = test::tcp_pair();
  Peer peer(pair.theirs);
  Client client(loop, pair.ours);
  std::string expected = stream_bytes(1, 0, 12 * kMiB);
  client.send(expected);
  loop.settle();
  ASSERT_GT(client.socket.queued(), 0u);
  const size_t pinned = loop->pool().out_bytes(), queued = client.socket.queued();
  constexpr size_t kPieces = 4000;
  for (size_t i = 0; i < kPieces; ++i) {
    Buffer record = record_of(loop->pool(), "x");
    ASSERT_EQ(record.window_count(), 3u);
    client.socket.send(std::move(record));
    expected += std::string(5, 'r') + "x" + std::string(16, 'r');
  }
  EXPECT_EQ(loop->counters().packed, kPieces);
  // Also of the sizes in between, up to the largest that is packed.
  for (size_t size = 1; size <= 8 * 1024 - 21; size += 97) {
    const std::string body(size, 'y');
    client.socket.send(record_of(loop->pool(), body));
    expected += std::string(5, 'r') + body + std::string(16, 'r');
  }
  const size_t more_queued = client.socket.queued() - queued, more_pinned = loop->pool().out_bytes() - pinned;
  EXPECT_LE(more_pinned, 2 * more_queued + kMaxChunkBytes);
  loop.until([&] {
    peer.read();
    return peer.received.size() >= expected.size();
  });
  EXPECT_TRUE(peer.received == expected);
}

/// A socket whose zero-copy sends the test completes.
class ZeroCopyMemory : public ::testing::Test {
 protected:
  ZeroCopyMemory() : loop_(options()), pair_(test::tcp_pair()), peer_(pair_.theirs), client_(loop_, pair_.ours) {}
  void SetUp() override {
    if (!test::kernel_features().zero_copy) GTEST_SKIP();
  }
  static Worker::Options options() {
    Worker::Options options = Loop::with_features();
    options.zero_copy_bytes = 1;
    return options;
  }
  /// A send that the kernel has taken completely and not released.
  void send(size_t bytes) {
    loop_.ring().inject(Op::kSendZeroCopy, static_cast<int32_t>(bytes), IORING_CQE_F_MORE);
    client_.send(std::string(bytes, 'z'));
    loop_.until([&] { return client_.socket.queued() == 0; });
  }
  void notice(uint32_t result = 0) {
    client_.socket.complete(Op::kSendZeroCopy, {static_cast<int32_t>(result), IORING_CQE_F_NOTIF});
  }
  size_t out() { return loop_.chunks_out(); }

  Loop loop_;
  Pair pair_;
  Peer peer_;
  Client client_;
};

// Defect: sent memory was released only when no notification was outstanding at all. On a link that always has some in
// flight, that is never: everything that a connection had sent stayed.
TEST_F(ZeroCopyMemory, IsReleasedWithEachNotification) {
  constexpr size_t kBytes = 20'000;
  for (int i = 0; i < 3; ++i) send(kBytes);
  const size_t three = out();
  ASSERT_GT(three, 0u);
  notice();
  const size_t two = out();
  EXPECT_LT(two, three);
  // For as long as it continues.
  for (int i = 0; i < 100; ++i) {
    send(kBytes);
    notice();
    EXPECT_LE(out(), three);
  }
  notice();
  EXPECT_LT(out(), two);
  notice();
  EXPECT_EQ(out(), 0u);
}

// The notification of a send that was copied comes at once and overtakes earlier ones, whose memory is still being
// read.
TEST_F(ZeroCopyMemory, IsKeptWhenANotificationOvertakes) {
  send(20'000);
  send(20'000);
  const size_t two = out();
  notice(IORING_NOTIF_USAGE_ZC_COPIED);
  EXPECT_EQ(out(), two);
  notice();
  EXPECT_EQ(out(), 0u);
}

}  // namespace
}  // namespace sluice
