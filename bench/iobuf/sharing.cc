// A second handle on the same bytes. malloc has none.

#include <array>

#include "bench/iobuf/home.h"

namespace sluice::bench {
namespace {

// Made and dropped by the only holder.
void clone_view_sluice(benchmark::State& state) {
  Home home;
  View view = home.view();
  run(state, [&] {
    View clone = view.clone();
    benchmark::DoNotOptimize(clone);
  });
}
BENCHMARK(clone_view_sluice)->Name("clone_view/sluice");

void clone_view_cord(benchmark::State& state) {
  const absl::Cord piece = cord();
  run(state, [&] {
    absl::Cord clone = piece;
    benchmark::DoNotOptimize(clone);
  });
}
BENCHMARK(clone_view_cord)->Name("clone_view/cord");

// Only made: 256 pieces, each with one holder.
constexpr size_t kPieces = 256;

void clone_only_sluice(benchmark::State& state) {
  Home home;
  std::array<View, kPieces> views, clones;
  for (View& view : views) view = home.view();
  run_timed(
      state, kPieces, [] {}, [&](size_t i) { clones[i] = views[i].clone(); },
      [&] {
        for (View& clone : clones) clone = View();
      });
}
BENCHMARK(clone_only_sluice)->Name("clone_only/sluice")->UseManualTime();

void clone_only_cord(benchmark::State& state) {
  std::array<absl::Cord, kPieces> pieces, clones;
  for (absl::Cord& piece : pieces) piece = cord();
  run_timed(
      state, kPieces, [] {}, [&](size_t i) { clones[i] = pieces[i]; },
      [&] {
        for (absl::Cord& clone : clones) clone.Clear();
      });
}
BENCHMARK(clone_only_cord)->Name("clone_only/cord")->UseManualTime();

// Made and dropped while others hold the piece too.
void clone_shared_sluice(benchmark::State& state) {
  Home home;
  View view = home.view();
  const View second = view.clone(), third = view.clone();
  run(state, [&] {
    View clone = view.clone();
    benchmark::DoNotOptimize(clone);
  });
}
BENCHMARK(clone_shared_sluice)->Name("clone_shared/sluice");

void clone_shared_cord(benchmark::State& state) {
  const absl::Cord piece = cord(), second = piece, third = piece;
  run(state, [&] {
    absl::Cord clone = piece;
    benchmark::DoNotOptimize(clone);
  });
}
BENCHMARK(clone_shared_cord)->Name("clone_shared/cord");

// A whole chain: its pieces are counted one by one, while a Cord counts its tree.
void chain_lengths(benchmark::internal::Benchmark* bench) { bench->Arg(1)->Arg(3)->Arg(16); }

void clone_buffer_sluice(benchmark::State& state) {
  Home home;
  Buffer buffer;
  for (size_t i = 0; i < argument(state); ++i) buffer.append(home.lease());
  run(state, [&] {
    Buffer clone = buffer.clone();
    benchmark::DoNotOptimize(clone);
  });
}
BENCHMARK(clone_buffer_sluice)->Name("clone_buffer/sluice")->Apply(chain_lengths);

void clone_buffer_cord(benchmark::State& state) {
  absl::Cord chain;
  for (size_t i = 0; i < argument(state); ++i) chain.Append(cord());
  run(state, [&] {
    absl::Cord clone = chain;
    benchmark::DoNotOptimize(clone);
  });
}
BENCHMARK(clone_buffer_cord)->Name("clone_buffer/cord")->Apply(chain_lengths);

}  // namespace
}  // namespace sluice::bench
