// A program that uses the installed library; test/embed/checks_test.py compiles it in many ways. The argument says what
// it does: use everything well, or make one mistake, which the library or a sanitizer may find.

#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <sluice/appender.h>
#include <sluice/buffer.h>
#include <sluice/cursor.h>
#include <sluice/file_pool.h>
#include <sluice/shared_buffer.h>
#include <sluice/spill.h>
#include <sluice/thread_pool.h>

using sluice::Buffer;
using sluice::ChunkPool;
using sluice::ChunkRef;
using sluice::Lease;

namespace {

void require(bool condition, const char* what) {
  if (condition) return;
  std::fprintf(stderr, "%s\n", what);
  std::exit(1);
}

// One thread hands buffers to another.
class Channel {
 public:
  void send(Buffer&& buffer) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return !held_; });
    held_ = std::move(buffer);
    changed_.notify_one();
  }
  Buffer receive() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return held_.has_value(); });
    Buffer buffer = std::move(*held_);
    held_.reset();
    changed_.notify_one();
    return buffer;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<Buffer> held_;
};

void use_all_sizes(ChunkPool& pool) {
  for (int round = 0; round < 50; ++round) {
    std::vector<Lease> leases;
    for (int tier = 0; tier < sluice::kTierCount; ++tier) {
      Lease lease = Lease::allocate(pool, sluice::tier_bytes(tier));
      require(static_cast<bool>(lease), "no memory");
      lease.grow_back(lease.tailroom());
      std::memset(lease.data(), round, lease.size());
      leases.push_back(std::move(lease));
    }
  }
  for (int i = 0; i < 4; ++i) pool.age();
  pool.trim_all();
}

void use_buffers(ChunkPool& pool) {
  Buffer frame;
  {
    sluice::Appender out(frame, pool);
    out.u32be(7);
    for (int i = 0; i < 500; ++i) out.text("a line of text\r\n");
  }
  Buffer copy = frame.clone();
  require(frame.write_at(pool, 2000, std::as_bytes(std::span("X", 1))), "no memory");
  sluice::Cursor in(copy);
  require(in.u32be() == 7, "wrong number");
  copy.trim_front(4);
  size_t lines = 0;
  while (copy.split_until("\r\n")) ++lines;
  require(lines == 500, "wrong number of lines");
  frame.append(std::move(copy));
  frame.compact(pool);
  require(!frame.describe().empty() && frame.size() == 4 + 500 * 16, "wrong size");
  sluice::SharedBuffer shared = sluice::SharedBuffer::from(std::move(frame));
  require(shared.to_buffer().size() == shared.size(), "wrong copy");
}

void use_a_file(ChunkPool& pool) {
  sluice::FilePool files({.directory = "/tmp", .limit_bytes = size_t{8} << 20});
  require(files.ok(), files.error().message.c_str());
  for (int round = 0; round < 3; ++round) {
    Buffer body;
    require(body.append_copy(pool, std::string(200'000, 'x')), "no memory");
    require(sluice::spill(body, files) && body.to_string() == std::string(200'000, 'x'), "not spilled");
  }
}

// The other thread reads, writes to and drops what this one made, so that its memory comes home, is used again, and is
// handed over again.
void use_threads(ChunkPool& pool) {
  Channel channel;
  std::thread other([&channel] {
    for (int i = 0; i < 300; ++i) {
      Buffer buffer = channel.receive();
      require(buffer.size() == 5000, "wrong size");
      require(buffer.append_copy(sluice::thread_pool(), "and more"), "no memory");
    }
  });
  for (int i = 0; i < 300; ++i) {
    Buffer buffer;
    while (!buffer.append_copy(pool, std::string(5000, 'x'))) std::this_thread::yield();
    channel.send(std::move(buffer));
    pool.take_remote_frees();
  }
  other.join();
  pool.take_remote_frees();
  require(pool.leaked() == 0, "leaked");
}

// What the library and its users have to agree on.
void print_sizes() {
  std::printf("%zu %zu %zu %zu %zu %zu %zu\n", sizeof(ChunkPool), sizeof(ChunkPool::Options), sizeof(sluice::Budget),
              sizeof(sluice::Chunk), sizeof(Buffer), sizeof(sluice::SharedBuffer), sizeof(ChunkPool::Stats));
}

// Precondition: 64 <= bytes.
std::byte* released(ChunkPool& pool, size_t bytes) {
  Lease lease = Lease::allocate(pool, bytes);
  lease.grow_back(bytes);
  std::memset(lease.data(), 1, bytes);
  return lease.data();
}

}  // namespace

int main(int, char** arguments) {
  const std::string_view what = arguments[1];
  ChunkPool pool({.budget_bytes = 8 << 20});
  ChunkPool::Use use(&pool);
  if (what == "good") {
    print_sizes();
    use_all_sizes(pool);
    use_buffers(pool);
    use_a_file(pool);
    use_threads(pool);
  } else if (what == "read") {
    const volatile std::byte* const data = released(pool, 512);
    std::printf("%d\n", static_cast<int>(data[40]));
  } else if (what == "write") {
    volatile std::byte* const data = released(pool, 512);
    data[40] = std::byte{2};
    for (int i = 0; i < 8; ++i) Lease::allocate(pool, 512);
  } else if (what == "race") {
    Lease lease = Lease::allocate(pool, 512);
    lease.grow_back(512);
    std::thread other([&] { lease.data()[0] = std::byte{1}; });
    lease.data()[0] = std::byte{2};
    other.join();
  } else if (what == "overflow") {
    volatile int most = 0x7fffffff;
    most = most + static_cast<int>(pool.stats().budget_bytes > 0);
  }
}
