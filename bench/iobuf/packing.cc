// From which size on a window of its own is cheaper than a copy: the basis of docs/internals/decisions/packing.md.
//
//   build/release/bench/iobuf_bench --benchmark_filter=packing
//
// The time is for one piece of as many bytes as the argument says: it arrives as a view, waits in a buffer with 63
// others, is described for sendmsg, and dropped. `pinned` is the memory that the buffer keeps from other use meanwhile,
// per piece.

#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <vector>

#include "bench/iobuf/home.h"

namespace sluice::bench {
namespace {

constexpr size_t kPieces = 64;
constexpr size_t kReceivedBytes = 16 * 1024;  // A chunk that the kernel fills piece by piece.

void sizes(benchmark::internal::Benchmark* bench) {
  for (int64_t bytes : {16, 64, 128, 256, 512, 1024, 2048, 4096}) bench->Arg(bytes);
}

// The source of pieces, which determines what else holds their chunk.

// Pieces of one received chunk that is held for other reasons.
class SharedSource {
 public:
  View next(Home& home, size_t bytes) {
    if (!chunk_.size()) chunk_ = home.view(kReceivedBytes);
    View piece = chunk_.clone();
    piece.truncate(bytes);
    return piece;
  }

 private:
  View chunk_;
};

// Each has a chunk of 4 KiB without other holders.
class OwnSource {
 public:
  View next(Home& home, size_t bytes) {
    View piece = home.view();
    piece.truncate(bytes);
    return piece;
  }
};

// What is done with them.

struct AsWindow {
  static void take(Home&, Buffer& buffer, View&& piece) { buffer.append(std::move(piece)); }
};

// Copied to the last chunk's tail; a fresh chunk is one of 4 KiB, whatever the piece's size.
struct ByCopy {
  static void take(Home& home, Buffer& buffer, View&& piece) {
    if (buffer.tailroom() >= piece.size()) {
      benchmark::DoNotOptimize(buffer.append_copy(home.pool(), piece.bytes()));
    } else {
      Lease lease = Lease::allocate(home.pool(), kPieceBytes);
      lease.grow_back(piece.size());
      std::memcpy(lease.data(), piece.data(), piece.size());
      buffer.append(std::move(lease));
    }
    const View dropped = std::move(piece);
  }
};

struct Packed {
  static void take(Home& home, Buffer& buffer, View&& piece) { buffer.append_packed(home.pool(), std::move(piece)); }
};

template <typename Source, typename Way>
void packing(benchmark::State& state) {
  Home home;
  Source source;
  const size_t bytes = argument(state);
  size_t pinned = 0, described = 0;
  run(state, kPieces, [&] {
    Buffer buffer;
    for (size_t i = 0; i < kPieces; ++i) Way::take(home, buffer, source.next(home, bytes));
    if (pinned == 0) pinned = buffer.pinned_bytes();
    std::array<iovec, kPieces> pieces;
    described = buffer.fill_iovecs(pieces);
    benchmark::DoNotOptimize(pieces);
  });
  state.counters["pinned"] = static_cast<double>(pinned) / kPieces;
  state.counters["iovecs"] = static_cast<double>(described) / kPieces;
}
BENCHMARK(packing<SharedSource, AsWindow>)->Name("packing/shared/window")->Apply(sizes);
BENCHMARK(packing<SharedSource, ByCopy>)->Name("packing/shared/copy")->Apply(sizes);
BENCHMARK(packing<SharedSource, Packed>)->Name("packing/shared/append_packed")->Apply(sizes);
BENCHMARK(packing<OwnSource, AsWindow>)->Name("packing/own/window")->Apply(sizes);
BENCHMARK(packing<OwnSource, ByCopy>)->Name("packing/own/copy")->Apply(sizes);
BENCHMARK(packing<OwnSource, Packed>)->Name("packing/own/append_packed")->Apply(sizes);

// The kernel's cost of each further piece of a message: 16 KiB to a socket pair, in as many pieces as the argument
// says. The time is CPU time for the whole message, sending only.
void send_pieces(benchmark::State& state) {
  constexpr size_t kMessageBytes = 16 * 1024;
  std::array<int, 2> sockets{};
  if (socketpair(AF_UNIX, SOCK_STREAM, 0, sockets.data()) != 0) return state.SkipWithError("no socket pair");
  const std::vector<std::byte> message(kMessageBytes);
  std::vector<std::byte> received(kMessageBytes);
  const size_t piece = kMessageBytes / argument(state);
  std::vector<iovec> pieces;
  for (size_t at = 0; at < kMessageBytes; at += piece) {
    pieces.push_back({const_cast<std::byte*>(message.data()) + at, piece});
  }
  msghdr header{};
  header.msg_iov = pieces.data();
  header.msg_iovlen = pieces.size();
  for (auto _ : state) {
    const double start = thread_cpu_s();
    benchmark::DoNotOptimize(sendmsg(sockets[0], &header, 0));
    state.SetIterationTime(thread_cpu_s() - start);
    benchmark::DoNotOptimize(recv(sockets[1], received.data(), received.size(), MSG_WAITALL));
  }
  close(sockets[0]);
  close(sockets[1]);
}
BENCHMARK(send_pieces)->Name("packing/send")->Arg(1)->Arg(4)->Arg(16)->Arg(64)->Arg(256)->UseManualTime();

}  // namespace
}  // namespace sluice::bench
