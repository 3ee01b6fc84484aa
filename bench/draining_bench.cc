// How long the loop of a worker stands still while it visits 100,000 sessions: to drain them, to end them, and to move
// them to the acceptor of another configuration. The sessions have no sockets, since a process rarely has that many
// descriptors. bench/draining runs it, beside connections to a proxy.

#include <benchmark/benchmark.h>
#include <time.h>

#include <algorithm>

#include "test/support/idle_sessions.h"

namespace sluice {
namespace {

// CPU time of this thread, so that other programs do not count: a turn that does not wait stands still for no other
// reason.
double cpu_ms() {
  timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e3 + static_cast<double>(now.tv_nsec) / 1e6;
}

template <class Begin>
void longest_turn(benchmark::State& state, Begin begin) {
  double longest = 0;
  for (auto _ : state) {
    state.PauseTiming();
    test::IdleAcceptors acceptors(2);
    acceptors.add_sessions(0, static_cast<int>(state.range(0)));
    state.ResumeTiming();
    begin(acceptors[0], acceptors[1]);
    while (!acceptors[0].idle()) {
      const double begun = cpu_ms();
      acceptors.worker().turn(0);
      longest = std::max(longest, cpu_ms() - begun);
    }
  }
  state.counters["longest_turn_ms"] = longest;
}

BENCHMARK_CAPTURE(longest_turn, drain,
                  [](ClientAcceptor& acceptor, ClientAcceptor&) {
                    acceptor.stop_accepting();
                    acceptor.drain();
                  })
    ->Arg(100'000)
    ->Iterations(3)
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(longest_turn, end,
                  [](ClientAcceptor& acceptor, ClientAcceptor&) {
                    acceptor.stop_accepting();
                    acceptor.end_all();
                  })
    ->Arg(100'000)
    ->Iterations(3)
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(longest_turn, move,
                  [](ClientAcceptor& acceptor, ClientAcceptor& successor) { acceptor.hand_over(successor); })
    ->Arg(100'000)
    ->Iterations(3)
    ->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace sluice
