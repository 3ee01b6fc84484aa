// A message for many subscribers on two threads: one thread makes messages and delivers them to its half of the
// subscribers, the other one to its own. A delivery puts the message at the end of a subscriber's output, which is
// dropped, as if sent, after each batch. The time is CPU time of both threads together for one delivery, without the
// cost of passing the batches and of waiting for each other. With one subscriber, it is on the other thread.

#include <atomic>
#include <span>
#include <thread>
#include <vector>

#include "bench/iobuf/home.h"
#include "sluice/shared_buffer.h"

namespace sluice::bench {
namespace {

constexpr size_t kBatch = 16;  // Messages of one chunk.

struct SluiceFanout {
  using Message = SharedBuffer;
  using Output = Buffer;
  struct Thread {
    Home home;
    Message make() {
      Buffer buffer;
      buffer.append(home.lease());
      return SharedBuffer::from(std::move(buffer));
    }
    void end_batch() { home.pool().take_remote_frees(); }
  };
  static void deliver(const Message& message, Output& output) { output.append(message.to_buffer()); }
};

struct CordFanout {
  using Message = absl::Cord;
  using Output = absl::Cord;
  struct Thread {
    static Message make() { return cord(); }
    static void end_batch() {}
  };
  static void deliver(const Message& message, Output& output) { output.Append(message); }
};

template <typename Fanout>
void deliver_all(std::span<const typename Fanout::Message> messages, std::vector<typename Fanout::Output>& outputs) {
  for (const auto& message : messages) {
    for (auto& output : outputs) Fanout::deliver(message, output);
  }
  for (auto& output : outputs) output = typename Fanout::Output();
}

template <typename Fanout>
void fanout(benchmark::State& state) {
  enum class Turn { kWait, kDeliver, kEnd };
  const size_t subscribers = argument(state);
  std::atomic<Turn> turn = Turn::kWait;
  std::vector<typename Fanout::Message> batch;
  double other_s = 0;
  std::thread other([&] {
    typename Fanout::Thread self;
    std::vector<typename Fanout::Output> outputs(subscribers - subscribers / 2);
    for (;;) {
      turn.wait(Turn::kWait, std::memory_order_acquire);
      if (turn.load(std::memory_order_acquire) == Turn::kEnd) return;
      const double start = thread_cpu_s();
      deliver_all<Fanout>(batch, outputs);
      self.end_batch();
      other_s = thread_cpu_s() - start;
      turn.store(Turn::kWait, std::memory_order_release);
      turn.notify_one();
    }
  });
  const auto give = [&](Turn next) {
    turn.store(next, std::memory_order_release);
    turn.notify_one();
  };
  typename Fanout::Thread self;
  std::vector<typename Fanout::Output> outputs(subscribers / 2);
  const auto round = [&] {
    double start = thread_cpu_s();
    for (size_t i = 0; i < kBatch; ++i) batch.push_back(self.make());
    give(Turn::kDeliver);
    deliver_all<Fanout>(batch, outputs);
    double spent_s = thread_cpu_s() - start;
    turn.wait(Turn::kDeliver, std::memory_order_acquire);
    start = thread_cpu_s();
    batch.clear();
    self.end_batch();
    return other_s + spent_s + thread_cpu_s() - start;
  };
  for (int i = 0; i < 4; ++i) round();
  while (state.KeepRunningBatch(static_cast<int64_t>(kBatch * subscribers))) state.SetIterationTime(round());
  give(Turn::kEnd);
  other.join();
}
void subscriber_counts(benchmark::internal::Benchmark* bench) {
  bench->Arg(1)->Arg(10)->Arg(100)->Arg(1000)->UseManualTime();
}
BENCHMARK(fanout<SluiceFanout>)->Name("fanout/sluice")->Apply(subscriber_counts);
BENCHMARK(fanout<CordFanout>)->Name("fanout/cord")->Apply(subscriber_counts);

}  // namespace
}  // namespace sluice::bench
