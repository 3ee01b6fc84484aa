#include "net/worker.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pthread.h>
#include <signal.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "test/net/loop.h"

namespace sluice {
namespace {

using test::Client;
using test::Loop;
using test::Pair;
using test::Peer;

/// Counts where it ran.
struct Note : Message {
  Note() {
    run = [](Message& message, Worker& runner) {
      auto& note = static_cast<Note&>(message);
      note.worker.store(&runner);
      note.current.store(Worker::current());
      note.thread.store(pthread_self());
      note.runs.fetch_add(1);
    };
  }
  std::atomic<int> runs{0};
  std::atomic<Worker*> worker{nullptr}, current{nullptr};
  std::atomic<pthread_t> thread{};
};

/// A worker on a thread of its own, until it is destroyed.
class WorkerOnThread {
 public:
  explicit WorkerOnThread(Worker::Options options = Loop::with_features()) {
    std::promise<Worker*> ready;
    thread_ = std::thread([&ready, this, options] {
      auto worker = Worker::open(options);
      SLUICE_CHECK(worker.ok());
      ready.set_value(worker->get());
      (*worker)->run();
      leaked_ = (*worker)->pool().leaked() - (*worker)->small_group().filled_slots() -
                (*worker)->large_group().filled_slots();
    });
    worker_ = ready.get_future().get();
  }
  ~WorkerOnThread() {
    struct Stop : Message {
    } stop;
    stop.run = [](Message&, Worker& worker) { worker.stop(); };
    worker_->post(stop);
    thread_.join();
    EXPECT_EQ(leaked_, 0u);
  }
  Worker& operator*() { return *worker_; }
  Worker* operator->() { return worker_; }

 private:
  std::thread thread_;
  Worker* worker_ = nullptr;
  size_t leaked_ = 0;
};

bool wait_for(const std::function<bool()>& done) {
  const auto deadline = std::chrono::steady_clock::now() + test::kPatience;
  while (!done()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

// ---- Messages ----

TEST(WorkerTest, ReceivesMessagesFromAnyThread) {
  WorkerOnThread worker;
  constexpr int kThreads = 4, kEach = 200;
  std::vector<std::unique_ptr<Note>> notes;
  for (int i = 0; i < kThreads * kEach; ++i) notes.push_back(std::make_unique<Note>());
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < kEach; ++i) worker->post(*notes[static_cast<size_t>(t * kEach + i)]);
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const auto& note : notes) {
    ASSERT_TRUE(wait_for([&] { return note->runs.load() == 1; }));
    EXPECT_EQ(note->worker.load(), &*worker);
    EXPECT_EQ(note->current.load(), &*worker);
    EXPECT_FALSE(pthread_equal(note->thread.load(), pthread_self()));
  }
}

TEST(WorkerTest, ReceivesMessagesFromAnotherWorker) {
  WorkerOnThread one, two;
  // Bounces between the two.
  struct Ball : Message {
    Worker* sides[2];
    std::atomic<int> bounces{0};
  } ball;
  ball.sides[0] = &*one;
  ball.sides[1] = &*two;
  ball.run = [](Message& message, Worker& worker) {
    auto& b = static_cast<Ball&>(message);
    SLUICE_CHECK(&worker == b.sides[b.bounces.load() % 2]);
    if (b.bounces.fetch_add(1) + 1 < 1000) b.sides[b.bounces.load() % 2]->post(b);
  };
  one->post(ball);
  EXPECT_TRUE(wait_for([&] { return ball.bounces.load() == 1000; }));
}

TEST(WorkerTest, ReceivesMessagesFromItself) {
  Loop loop;
  Note note;
  struct Outer : Message {
    Note* inner;
  } outer;
  outer.inner = &note;
  outer.run = [](Message& message, Worker& worker) { worker.post(*static_cast<Outer&>(message).inner); };
  loop->post(outer);
  loop.until([&] { return note.runs.load() == 1; });
  loop.settle();
  EXPECT_EQ(note.runs.load(), 1);
  EXPECT_EQ(note.current.load(), &loop.worker());
  EXPECT_EQ(Worker::current(), nullptr);
}

// More than fit into the queues of the small ring that a thread without a worker uses to post.
TEST(WorkerTest, ReceivesManyMessagesAtOnce) {
  Loop loop;
  std::vector<std::unique_ptr<Note>> notes;
  for (int i = 0; i < 3000; ++i) {
    notes.push_back(std::make_unique<Note>());
    loop->post(*notes.back());
  }
  loop.until([&] { return notes.back()->runs.load() == 1; });
  loop.settle();
  for (const auto& note : notes) ASSERT_EQ(note->runs.load(), 1);
}

// ---- The loop ----

TEST(WorkerTest, DeferredCallsRunOnceAtTheEndOfTheBatch) {
  Loop loop;
  static std::vector<std::string>* log;
  std::vector<std::string> lines;
  log = &lines;
  struct Defer : Message {
  } message;
  message.run = [](Message&, Worker& worker) {
    worker.defer(
        [](void* context) {
          log->push_back("deferred");
          // A call that is deferred by a deferred call comes in the same batch.
          static_cast<Worker*>(context)->defer([](void*) { log->push_back("deferred again"); }, nullptr);
        },
        &worker);
    log->push_back("message");
  };
  Timer timer([](void*) { log->push_back("timer"); }, nullptr);
  loop->timers().arm(timer, 0);
  std::this_thread::sleep_for(std::chrono::milliseconds(10));
  loop->post(message);
  loop.until([&] { return lines.size() >= 4; });
  loop.settle();
  EXPECT_THAT(lines, ::testing::ElementsAre("message", "timer", "deferred", "deferred again"));
}

TEST(WorkerTest, TimersFireWhileTheLoopSleeps) {
  Loop loop;
  int fired = 0;
  Timer timer([](void* count) { ++*static_cast<int*>(count); }, &fired);
  for (const uint64_t delay : {uint64_t{0}, uint64_t{1}, uint64_t{30}, uint64_t{5}}) {
    const int before = fired;
    const uint64_t due = loop->now_ms() + delay;
    loop->timers().arm(timer, due);
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < 100 && fired == before; ++i) loop->turn();
    EXPECT_EQ(fired, before + 1);
    EXPECT_GE(loop->now_ms(), due);
    EXPECT_LT(std::chrono::steady_clock::now() - start, test::kPatience);
  }
}

// Defect: the clock was read before the loop slept and not again before it handled the event that woke it. After a
// sleep of 8 s a handler's timer of 3 s was due already, and fired in the turn that armed it.
TEST(WorkerTest, TimersOfAHandlerCountFromTheEventAfterALongSleep) {
  Loop loop;
  const Pair p = test::tcp_pair();
  const Peer peer(p.theirs);
  Client client(loop, p.ours);
  client.socket.start_reading();
  loop.settle();
  struct Alarm {
    Timer timer{[](void* self) { ++static_cast<Alarm*>(self)->fired; }, this};
    int fired = 0;
  } alarm;
  const uint64_t before_ms = loop->now_ms();
  uint64_t event_ms = 0;
  client.recorder.data = [&](Socket&, Buffer&) {
    event_ms = loop->now_ms();
    loop->timers().arm(alarm.timer, event_ms + 3000);
  };
  // While the worker sleeps, and not before: reading the clock before the wait would not help.
  std::thread waker([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
    Loop::jump(8000);
    peer.send("x");
  });
  while (event_ms == 0) loop->turn();
  waker.join();
  EXPECT_EQ(alarm.fired, 0) << "it fired in the turn that armed it";
  EXPECT_GE(event_ms, before_ms + 8000);
  Loop::jump(2000);
  loop->turn(0);
  if (!test::TestClock::jumps()) {
    EXPECT_EQ(alarm.fired, 0) << "it fired after two seconds of three";
  }
  Loop::jump(1000 + TimerWheel::kTickMs);
  loop->turn(0);
  EXPECT_EQ(alarm.fired, 1);
}

// Armed again and again for later and for sooner, as by connections.
TEST(WorkerTest, RearmedTimersAreNotLost) {
  Loop loop;
  struct Alarm {
    Timer timer{[](void* self) { ++static_cast<Alarm*>(self)->fired; }, this};
    int fired = 0;
  };
  std::vector<std::unique_ptr<Alarm>> alarms;
  for (int i = 0; i < 50; ++i) alarms.push_back(std::make_unique<Alarm>());
  for (int round = 0; round < 40; ++round) {
    for (size_t i = 0; i < alarms.size(); ++i) {
      loop->timers().arm(alarms[i]->timer, loop->now_ms() + (i * 37 + static_cast<size_t>(round) * 11) % 90);
    }
    loop->turn(0);
  }
  const auto deadline = std::chrono::steady_clock::now() + test::kPatience;
  const auto all_fired = [&] {
    for (auto& alarm : alarms) {
      if (alarm->timer.armed()) return false;
    }
    return true;
  };
  while (!all_fired() && std::chrono::steady_clock::now() < deadline) loop->turn();
  EXPECT_TRUE(all_fired());
  for (auto& alarm : alarms) EXPECT_GE(alarm->fired, 1);
}

// Defect: descriptors that were closed in the last turn stayed open when the worker was destroyed.
TEST(WorkerTest, ClosesTheLastDescriptors) {
  const size_t descriptors = test::open_descriptors();
  {
    Loop loop;
    const Pair p = test::tcp_pair();
    const Peer peer(p.theirs);
    Client client(loop, p.ours);
    client.socket.start_reading();
    loop.settle();
    client.close();
    client.wait_closed();
  }
  EXPECT_EQ(test::open_descriptors(), descriptors);
}

TEST(WorkerTest, OpensAndClosesWithoutATurn) {
  const size_t descriptors = test::open_descriptors();
  {
    ASSERT_TRUE(Worker::open(Loop::with_features()).ok());
  }
  EXPECT_EQ(test::open_descriptors(), descriptors);
}

TEST(WorkerTest, OpensWithTinyAndHugeLimits) {
  for (const size_t sockets : {size_t{0}, size_t{1}, size_t{1} << 20}) {
    Worker::Options options = Loop::with_features();
    options.max_sockets = sockets;
    EXPECT_TRUE(Worker::open(options).ok());
  }
  Worker::Options options = Loop::with_features();
  options.budget_bytes = 0;
  const auto worker = Worker::open(options);
  ASSERT_TRUE(worker.ok());
  (*worker)->turn(0);
  EXPECT_EQ((*worker)->small_group().filled_slots(), 0u);
}

// Defect: the share of a connection did not fall as others took memory, and the one that took the last of it stopped
// all the others.
TEST(WorkerTest, SharesFallFasterThanMemory) {
  constexpr size_t kBudget = size_t{256} << 20;
  Loop loop({.budget_bytes = kBudget});
  Worker& worker = loop.worker();
  ChunkPool::Use use(&worker.pool());
  std::vector<ChunkRef> chunks;
  const auto take_share = [&] {
    for (size_t left = worker.share(kBudget); left > 0; left -= std::min(left, kMaxChunkBytes)) {
      Chunk* const chunk = worker.pool().get_reserved(std::min(left, kMaxChunkBytes));
      if (chunk == nullptr) return false;
      chunks.push_back(ChunkRef::take(chunk));
    }
    return true;
  };
  EXPECT_EQ(worker.share(1000), 1000u);
  EXPECT_NEAR(static_cast<double>(worker.share(kBudget)), kBudget * 0.75 / 32, kBudget / 1000.0);
  for (int i = 0; i < 100; ++i) ASSERT_TRUE(take_share());
  EXPECT_FALSE(worker.in_reserve()) << "a hundred that take all they can";
  for (int i = 0; i < 1000; ++i) ASSERT_TRUE(take_share());
  EXPECT_TRUE(worker.in_reserve());
  EXPECT_GT(worker.pool().reserved_headroom_bytes(), worker.pool().reserve_bytes() / 4) << "a thousand more";
}

// Signals interrupt the wait repeatedly; the work continues.
TEST(WorkerTest, SignalStorm) {
  struct sigaction action{}, before{};
  action.sa_handler = [](int) {};
  ASSERT_EQ(sigaction(SIGUSR1, &action, &before), 0);
  Loop loop;
  const Pair p = test::tcp_pair();
  Peer peer(p.theirs);
  Client client(loop, p.ours);
  client.recorder.data = [](Socket& socket, Buffer& data) { socket.send(std::move(data)); };
  client.socket.start_reading();
  std::atomic<bool> over{false};
  std::atomic<int> signals{0};
  std::thread storm([&, target = pthread_self()] {
    while (!over.load()) {
      pthread_kill(target, SIGUSR1);
      signals.fetch_add(1);
      std::this_thread::sleep_for(std::chrono::microseconds(50));
    }
  });
  uint64_t sent = 0;
  loop.until([&] {
    sent += peer.send_some(test::stream_bytes(0, sent, std::min<uint64_t>((4 << 20) - sent, 30'000)));
    peer.read();
    return peer.received.size() == (4 << 20) && signals.load() > 500;
  });
  over.store(true);
  storm.join();
  EXPECT_TRUE(test::is_stream(0, 0, peer.received));
  sigaction(SIGUSR1, &before, nullptr);
}

// ---- Many workers ----

// Buffers that one worker received are sent by another, and their chunks return to the first.
TEST(WorkerTest, ChunksReturnFromOtherWorkers) {
  WorkerOnThread one;
  const Pair p = test::tcp_pair();
  Peer peer(p.theirs);
  // Filled on the first worker's thread, emptied on this one. The flag's release and acquire order the accesses.
  struct Reader : Socket::Owner, Message {
    Reader(Worker& worker, int fd) : socket(worker, *this), fd_(fd) {
      run = [](Message& message, Worker&) {
        auto& self = static_cast<Reader&>(message);
        self.socket.adopt(self.fd_);
        self.socket.start_reading();
      };
    }
    virtual ~Reader() = default;
    void on_connected(Socket&, int) override {}
    void on_data(Socket&, Buffer&& data) override {
      held.append(std::move(data));
      total += held.size();
      if (held.size() < 100'000) return;
      socket.stop_reading();
      ready.store(true, std::memory_order_release);
    }
    void on_end(Socket&) override { socket.close(); }
    void on_sent(Socket&) override {}
    void on_error(Socket&, int) override { socket.close(); }
    void on_closed(Socket&) override { closed.store(true, std::memory_order_release); }
    Socket socket;
    Buffer held;
    size_t total = 0;
    std::atomic<bool> ready{false}, closed{false};
    int fd_;
  };
  Reader reader(*one, p.ours);
  one->post(reader);
  uint64_t sent = 0;
  ASSERT_TRUE(wait_for([&] {
    sent += peer.send_some(test::stream_bytes(0, sent, 50'000));
    return reader.ready.load(std::memory_order_acquire);
  }));
  struct Take : Message {
    Buffer* from;
    Buffer taken;
    std::atomic<bool> done{false};
  } take;
  take.from = &reader.held;
  take.run = [](Message& message, Worker&) {
    auto& t = static_cast<Take&>(message);
    t.taken = std::move(*t.from);
    t.done.store(true, std::memory_order_release);
  };
  one->post(take);
  ASSERT_TRUE(wait_for([&] { return take.done.load(std::memory_order_acquire); }));
  EXPECT_TRUE(test::is_stream(0, 0, test::text_of(take.taken)));
  {
    Loop other;
    const Pair q = test::tcp_pair();
    Peer sink(q.theirs);
    Client out(other, q.ours);
    const size_t bytes = take.taken.size();
    out.socket.send(std::move(take.taken));
    other.until([&] {
      sink.read();
      return sink.received.size() == bytes;
    });
    EXPECT_TRUE(test::is_stream(0, 0, sink.received));
    other.until([&] { return out.socket.queued() == 0; });
  }
  peer.reset();
  // Reading again notices the reset, and closes.
  struct Resume : Message {
    Socket* socket;
  } resume;
  resume.socket = &reader.socket;
  resume.run = [](Message& message, Worker&) {
    static_cast<Resume&>(message).socket->start_reading();
    static_cast<Resume&>(message).socket->close();
  };
  one->post(resume);
  ASSERT_TRUE(wait_for([&] { return reader.closed.load(std::memory_order_acquire); }));
  // The destructor of the worker's thread checks that every chunk returned.
}

// The clock passes during the turn in which the events are processed.
TEST(Worker, ReportsTheTimeOfTurnsWithManyEvents) {
  for (const size_t events : {size_t{1}, size_t{20}}) {
    Loop loop;
    uint64_t longest_ms = 0;
    loop->observe_turns(
        [](void* longest, uint64_t busy_ms) {
          auto& ms = *static_cast<uint64_t*>(longest);
          ms = std::max(ms, busy_ms);
        },
        &longest_ms);
    std::vector<std::unique_ptr<Client>> clients;
    std::vector<Peer> peers;
    for (size_t i = 0; i < events; ++i) {
      const Pair pair = test::unix_pair();
      peers.emplace_back(pair.theirs);
      clients.push_back(std::make_unique<Client>(loop, pair.ours));
      clients.back()->recorder.data = [](Socket&, Buffer&) { Loop::jump(1000); };
      clients.back()->socket.start_reading();
    }
    loop.settle();
    for (const Peer& peer : peers) peer.send("x");
    loop.until([&] {
      return std::all_of(clients.begin(), clients.end(), [](const auto& c) { return c->recorder.received == "x"; });
    });
    loop.settle();
    if (events == 1) {
      EXPECT_EQ(longest_ms, 0u);
    } else {
      EXPECT_GE(longest_ms, 1000u);
    }
  }
}

}  // namespace
}  // namespace sluice
