// Memory that is allocated at home, released on other threads, and taken home again. The time is CPU time, of all
// threads together, for one piece, without the cost of passing the pieces and of waiting for each other.

#include <atomic>
#include <latch>
#include <memory>
#include <thread>
#include <vector>

#include "bench/iobuf/memory.h"

namespace sluice::bench {
namespace {

constexpr size_t kPieces = 4096;  // In circulation at once.

// A thread that releases its part of the pieces whenever it is its turn.
template <typename Memory>
class Releaser {
 public:
  Releaser(typename Memory::Held* begin, typename Memory::Held* end)
      : thread_([this, begin, end] { loop(begin, end); }) {}
  ~Releaser() {
    give_turn(Turn::kEnd);
    thread_.join();
  }

  void start() { give_turn(Turn::kRelease); }
  /// Waits, and returns the CPU time that it took.
  double finish_s() {
    turn_.wait(Turn::kRelease, std::memory_order_acquire);
    return spent_s_;
  }

 private:
  enum class Turn { kWait, kRelease, kEnd };

  void give_turn(Turn turn) {
    turn_.store(turn, std::memory_order_release);
    turn_.notify_one();
  }
  void loop(typename Memory::Held* begin, typename Memory::Held* end) {
    for (;;) {
      turn_.wait(Turn::kWait, std::memory_order_acquire);
      if (turn_.load(std::memory_order_acquire) == Turn::kEnd) return;
      const double start = thread_cpu_s();
      for (typename Memory::Held* held = begin; held != end; ++held) Memory::put(*held);
      spent_s_ = thread_cpu_s() - start;
      give_turn(Turn::kWait);
    }
  }

  std::atomic<Turn> turn_ = Turn::kWait;
  double spent_s_ = 0;
  std::thread thread_;
};

template <typename Memory>
void return_from(benchmark::State& state) {
  Memory memory;
  std::vector<typename Memory::Held> pieces(kPieces);
  std::vector<std::unique_ptr<Releaser<Memory>>> others;
  const size_t part = kPieces / argument(state);
  for (size_t i = 0; i < argument(state); ++i) {
    others.push_back(std::make_unique<Releaser<Memory>>(pieces.data() + i * part, pieces.data() + (i + 1) * part));
  }
  const auto round = [&] {
    double start = thread_cpu_s();
    for (typename Memory::Held& piece : pieces) piece = memory.get(kPieceBytes);
    double spent_s = thread_cpu_s() - start;
    for (auto& other : others) other->start();
    for (auto& other : others) spent_s += other->finish_s();
    start = thread_cpu_s();
    memory.come_home();
    return spent_s + thread_cpu_s() - start;
  };
  for (int i = 0; i < 4; ++i) round();
  while (state.KeepRunningBatch(kPieces)) state.SetIterationTime(round());
}
void thread_counts(benchmark::internal::Benchmark* bench) { bench->Arg(1)->Arg(2)->Arg(4)->UseManualTime(); }
BENCHMARK(return_from<PoolMemory>)->Name("return_from/sluice")->Apply(thread_counts);
BENCHMARK(return_from<HeapMemory>)->Name("return_from/malloc")->Apply(thread_counts);
BENCHMARK(return_from<CordMemory>)->Name("return_from/cord")->Apply(thread_counts);

}  // namespace
}  // namespace sluice::bench
