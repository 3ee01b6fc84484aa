// Forwarding bytes without a copy. By default, the pieces are references to one shared piece of 4 KiB, so that no row
// measures the allocation of memory.

#include <vector>

#include "bench/iobuf/home.h"

namespace sluice::bench {
namespace {

void chain_lengths(benchmark::internal::Benchmark* bench) { bench->Arg(1)->Arg(3)->Arg(16)->Arg(1000); }

// A reference to a piece is appended (prepended) to a chain, whose length is the argument, and dropped from it.

void append_sluice(benchmark::State& state) {
  Home home;
  View piece = home.view();
  Buffer buffer = buffer_of(piece, argument(state) - 1);
  const size_t rest = buffer.size();
  run(state, [&] {
    buffer.append(piece.clone());
    benchmark::DoNotOptimize(buffer);
    buffer.truncate(rest);
  });
}
BENCHMARK(append_sluice)->Name("append/sluice")->Apply(chain_lengths);

void append_cord(benchmark::State& state) {
  const absl::Cord piece = cord();
  absl::Cord chain = cord_of(piece, argument(state) - 1);
  run(state, [&] {
    chain.Append(piece);
    benchmark::DoNotOptimize(chain);
    chain.RemoveSuffix(piece.size());
  });
}
BENCHMARK(append_cord)->Name("append/cord")->Apply(chain_lengths);

void prepend_sluice(benchmark::State& state) {
  Home home;
  View piece = home.view();
  Buffer buffer = buffer_of(piece, argument(state) - 1);
  run(state, [&] {
    buffer.prepend(piece.clone());
    benchmark::DoNotOptimize(buffer);
    buffer.trim_front(kPieceBytes);
  });
}
BENCHMARK(prepend_sluice)->Name("prepend/sluice")->Apply(chain_lengths);

void prepend_cord(benchmark::State& state) {
  const absl::Cord piece = cord();
  absl::Cord chain = cord_of(piece, argument(state) - 1);
  run(state, [&] {
    chain.Prepend(piece);
    benchmark::DoNotOptimize(chain);
    chain.RemovePrefix(piece.size());
  });
}
BENCHMARK(prepend_cord)->Name("prepend/cord")->Apply(chain_lengths);

// What a proxy does: a fresh piece of 4 KiB is appended at the back, the oldest is removed from the front and released.

void queue_sluice(benchmark::State& state) {
  Home home;
  Buffer buffer;
  for (size_t i = 1; i < argument(state); ++i) buffer.append(home.lease());
  run(state, [&] {
    buffer.append(home.lease());
    benchmark::DoNotOptimize(buffer);
    buffer.trim_front(kPieceBytes);
  });
}
BENCHMARK(queue_sluice)->Name("queue/sluice")->Apply(chain_lengths);

void queue_cord(benchmark::State& state) {
  absl::Cord chain;
  for (size_t i = 1; i < argument(state); ++i) chain.Append(cord());
  const size_t piece_bytes = cord().size();
  run(state, [&] {
    absl::CordBuffer memory = cord_memory(kPieceBytes);
    memory.SetLength(memory.capacity());
    chain.Append(std::move(memory));
    benchmark::DoNotOptimize(chain);
    chain.RemovePrefix(piece_bytes);
  });
}
BENCHMARK(queue_cord)->Name("queue/cord")->Apply(chain_lengths);

// A fresh piece of 64 KiB is cut from the front into pieces of 64 bytes, each dropped at once, like in a parser.

constexpr size_t kLineBytes = 64;
constexpr size_t kLines = kMaxChunkBytes / kLineBytes;

void split_front_sluice(benchmark::State& state) {
  Home home;
  run(state, kLines, [&] {
    Buffer buffer;
    buffer.append(home.lease(kMaxChunkBytes));
    while (buffer.size() >= kLineBytes) {
      Buffer line = buffer.split_front(kLineBytes);
      benchmark::DoNotOptimize(line);
    }
  });
}
BENCHMARK(split_front_sluice)->Name("split_front/sluice");

void split_front_cord(benchmark::State& state) {
  run(state, kLines, [&] {
    absl::Cord chain = cord(kMaxChunkBytes);
    while (chain.size() >= kLineBytes) {
      absl::Cord line = chain.Subcord(0, kLineBytes);
      chain.RemovePrefix(kLineBytes);
      benchmark::DoNotOptimize(line);
    }
  });
}
BENCHMARK(split_front_cord)->Name("split_front/cord");

// A chain is cut within the piece in its middle and joined again. A Cord keeps a copy of its uncut tree, since joining
// does not undo its cut.

void split_lengths(benchmark::internal::Benchmark* bench) { bench->Arg(2)->Arg(16)->Arg(1000); }

void split_middle_sluice(benchmark::State& state) {
  Home home;
  View piece = home.view();
  Buffer buffer = buffer_of(piece, argument(state));
  const size_t cut = buffer.size() / 2 + kPieceBytes / 2;
  run(state, [&] {
    Buffer front = buffer.split_front(cut);
    benchmark::DoNotOptimize(front);
    front.append(std::move(buffer));
    buffer = std::move(front);
  });
}
BENCHMARK(split_middle_sluice)->Name("split_middle/sluice")->Apply(split_lengths);

void split_middle_cord(benchmark::State& state) {
  const absl::Cord chain = cord_of(cord(), argument(state));
  const size_t cut = chain.size() / 2 + kPieceBytes / 2;
  run(state, [&] {
    absl::Cord front = chain.Subcord(0, cut);
    absl::Cord back = chain;
    back.RemovePrefix(cut);
    front.Append(std::move(back));
    benchmark::DoNotOptimize(front);
  });
}
BENCHMARK(split_middle_cord)->Name("split_middle/cord")->Apply(split_lengths);

// A chain is appended to another of the same length. Only the joining is timed, of 64 pairs.

constexpr size_t kPairs = 64;

// A number of rounds, not a time: untimed parts take a hundred times as long.
void splice_lengths(benchmark::internal::Benchmark* bench) {
  bench->Arg(1)->Arg(2)->Arg(16)->Arg(1000)->Iterations(256 * kPairs)->UseManualTime();
}

void splice_sluice(benchmark::State& state) {
  Home home;
  View piece = home.view();
  std::vector<Buffer> first(kPairs), second(kPairs);
  run_timed(
      state, kPairs,
      [&] {
        for (Buffer& buffer : first) buffer = buffer_of(piece, argument(state));
        for (Buffer& buffer : second) buffer = buffer_of(piece, argument(state));
      },
      [&](size_t i) { first[i].append(std::move(second[i])); },
      [&] {
        for (Buffer& buffer : first) buffer.clear();
      });
}
BENCHMARK(splice_sluice)->Name("splice/sluice")->Apply(splice_lengths);

void splice_cord(benchmark::State& state) {
  const absl::Cord piece = cord();
  std::vector<absl::Cord> first(kPairs), second(kPairs);
  run_timed(
      state, kPairs,
      [&] {
        for (absl::Cord& chain : first) chain = cord_of(piece, argument(state));
        for (absl::Cord& chain : second) chain = cord_of(piece, argument(state));
      },
      [&](size_t i) { first[i].Append(std::move(second[i])); },
      [&] {
        for (absl::Cord& chain : first) chain.Clear();
      });
}
BENCHMARK(splice_cord)->Name("splice/cord")->Apply(splice_lengths);

}  // namespace
}  // namespace sluice::bench
