// The benches of grpc-go's record layer (credentials/alts/internal/conn, record_test.go), by their names, for ours:
//
//   LargeMessage      20 MiB are written, then read; five times.
//   WriteMemoryUsage  A connection is made and writes 256 bytes to nowhere.
//   ReadMemoryUsage   Two connections are made; one reads the 257 bytes that the other wrote.
//
// Theirs join two connections in memory, and count the allocations of a connection's life; */grpc_go does the same. The
// other rows are what that leaves out: sockets in each read mode, and the memory of a waiting connection.
// bench/compare-records compares them.

#include <benchmark/benchmark.h>
#include <malloc.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/aead.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "alts_like/alts_record_layer.h"
#include "alts_like/plain_record_layer.h"
#include "alts_like/tls12_record_layer.h"
#include "alts_like/tls13_record_layer.h"
#include "net/features.h"
#include "net/socket.h"
#include "net/worker.h"
#include "sluice/buffer.h"
#include "sluice/copied.h"
#include "sluice/internal/check.h"
#include "test/support/allocations.h"

namespace sluice {
namespace {

constexpr size_t kMessageBytes = size_t{20} << 20;
constexpr int kMessages = 5;
constexpr size_t kWrittenBytes = 256;
constexpr size_t kReadBytes = 257;
constexpr size_t kReadRoomBytes = 1024;
// The content of a record of grpc-go: 4 KiB less 24 bytes. Also the size of its reads.
constexpr size_t kGrpcRecordBytes = 4072;
constexpr size_t kGrpcReadBytes = 32 * 1024 + 512;

// A writer seals this much at a time, until this much is queued.
constexpr size_t kPieceBytes = size_t{64} * 1024;
constexpr size_t kQueuedBytes = size_t{512} * 1024;

constexpr size_t kConnections = 1000;

// More than a message takes, plain and sealed, and 32 KiB for each connection.
constexpr size_t kBudgetBytes = size_t{256} << 20;
constexpr std::chrono::seconds kPatience{60};

/// A protocol: its layer, and the initial state of the two ends of a connection.
template <Tls13Cipher kCipher>
struct Tls13With {
  static constexpr const char* kName = kCipher == Tls13Cipher::kAes128Gcm   ? "tls13"
                                       : kCipher == Tls13Cipher::kAes256Gcm ? "tls13_aes256gcm"
                                                                            : "tls13_chacha20";
  using Layer = Tls13RecordLayer;
  static Tls13State state(bool is_client) {
    Tls13State state;
    state.read = secret(is_client ? 2 : 1);
    state.write = secret(is_client ? 1 : 2);
    state.flags.is_client = is_client;
    return state;
  }

 private:
  static Tls13Secret secret(uint8_t fill) {
    std::array<uint8_t, Tls13Secret::kMaxBytes> bytes;
    bytes.fill(fill);
    return *Tls13Secret::from(kCipher, std::span(bytes).first(kCipher == Tls13Cipher::kAes256Gcm ? 48 : 32), 0);
  }
};
using Tls13 = Tls13With<Tls13Cipher::kAes128Gcm>;

struct Tls12 {
  static constexpr const char* kName = "tls12";
  using Layer = Tls12RecordLayer;
  static Tls12State state(bool is_client) {
    Tls12State state;
    state.read.key.fill(is_client ? 1 : 2);
    state.write.key.fill(is_client ? 2 : 1);
    return state;
  }
};

struct Alts {
  static constexpr const char* kName = "alts";
  using Layer = AltsRecordLayer;
  static AltsState state(bool is_client) {
    std::array<uint8_t, AltsKeys::kMaxSecretBytes> key_data;
    key_data.fill(1);
    return *AltsState::from(AltsProtocol::kAes128GcmRekey, key_data, is_client, AltsState::kMaxFrameBytes);
  }
};

/// No records: the cost of the interface itself.
struct Plain {
  static constexpr const char* kName = "plain";
  using Layer = PlainRecordLayer;
  static PlainRecordLayer state(bool) { return {}; }
};

Buffer message_of(ChunkPool& pool, size_t bytes) {
  Buffer message;
  SLUICE_CHECK(message.grow(pool, bytes, std::byte{'d'}));
  return message;
}
bool is_fill(std::span<const std::byte> bytes) {
  return std::all_of(bytes.begin(), bytes.end(), [](std::byte b) { return b == std::byte{'d'}; });
}
bool is_message(const Buffer& buffer, size_t bytes) {
  const Buffer::Windows windows = buffer.windows();
  return buffer.size() == bytes && std::all_of(windows.begin(), windows.end(), is_fill);
}

void report_carried(benchmark::State& state) {
  state.SetBytesProcessed(state.iterations() * kMessages * static_cast<int64_t>(kMessageBytes));
}

/// Counts from its construction on.
class Costs {
 public:
  void report(benchmark::State& state) const {
    const auto ops = static_cast<double>(state.iterations());
    state.counters["mallocs/op"] = static_cast<double>(test::allocations.load() - allocations_) / ops;
    state.counters["copied/op"] = static_cast<double>(copied_bytes - copied_) / ops;
  }

 private:
  uint64_t allocations_ = test::allocations.load();
  uint64_t copied_ = copied_bytes;
};

// ---- Without sockets ----

enum class Manner : uint8_t {
  kGrpcGo,   ///< The writer keeps its message, records are of 4 KiB, the reader wants one piece of memory and gets
             ///< what was written piece by piece.
  kKept,     ///< The writer keeps its message.
  kInPlace,  ///< The message is given away, and the received one is sent next: like in a proxy.
};

template <typename Layer>
void seal_message(Layer& layer, ChunkPool& pool, Manner manner, Buffer& message, Buffer& wire) {
  if (manner == Manner::kInPlace) return layer.seal(pool, std::move(message), wire);
  Buffer rest = message.clone();
  const size_t most = manner == Manner::kGrpcGo ? kGrpcRecordBytes : kMessageBytes;
  while (!rest.empty()) layer.seal(pool, rest.split_front(std::min(rest.size(), most)), wire);
}

template <typename Layer>
void open_to_memory(Layer& layer, ChunkPool& pool, Buffer&& wire, std::span<std::byte> memory) {
  Buffer plain;
  size_t filled = 0;
  while (!wire.empty()) {
    Buffer piece = wire.split_front(std::min(wire.size(), kGrpcReadBytes));
    SLUICE_CHECK(layer.open(pool, std::move(piece), plain) == RecordLayer::Status::kOpen);
    filled += plain.copy_out(0, memory.subspan(filled));
    plain.clear();
  }
  SLUICE_CHECK(filled == memory.size());
}

template <typename Protocol>
void large_message(benchmark::State& state, Manner manner) {
  ChunkPool pool({.budget_bytes = kBudgetBytes});
  ChunkPool::Use use(&pool);
  typename Protocol::Layer client(Protocol::state(true)), server(Protocol::state(false));
  Buffer message = message_of(pool, kMessageBytes);
  std::vector<std::byte> memory(manner == Manner::kGrpcGo ? kMessageBytes : 0);

  const auto pass = [&] {
    Buffer wire, plain;
    seal_message(client, pool, manner, message, wire);
    if (manner == Manner::kGrpcGo) {
      open_to_memory(server, pool, std::move(wire), memory);
      return plain;
    }
    SLUICE_CHECK(server.open(pool, std::move(wire), plain) == RecordLayer::Status::kOpen);
    SLUICE_CHECK(plain.size() == kMessageBytes);
    if (manner == Manner::kInPlace) message = std::move(plain);
    return plain;
  };
  {
    const Buffer first = pass();
    SLUICE_CHECK(manner == Manner::kGrpcGo ? is_fill(memory)
                                           : is_message(manner == Manner::kInPlace ? message : first, kMessageBytes));
  }
  pass();

  const Costs costs;
  for (auto _ : state) {
    for (int i = 0; i < kMessages; ++i) pass();
  }
  costs.report(state);
  report_carried(state);
}

// The cipher's part: each record is sealed and opened in place, and nothing else; as one piece, or cut into several.
void large_message_cipher(benchmark::State& state, const EVP_AEAD* aead, size_t pieces) {
  std::vector<uint8_t> message(kMessageBytes, 'd');
  const std::array<uint8_t, EVP_AEAD_MAX_KEY_LENGTH> key{};
  bssl::ScopedEVP_AEAD_CTX context;
  SLUICE_CHECK(EVP_AEAD_CTX_init(context.get(), aead, key.data(), EVP_AEAD_key_length(aead), 16, nullptr) == 1);
  const std::array<uint8_t, 12> nonce{};
  std::array<uint8_t, 16> tag;
  size_t tag_bytes = 0;
  std::array<CRYPTO_IOVEC, CRYPTO_IOVEC_MAX> parts;
  const auto cut = [&](uint8_t* bytes, size_t size) {
    const size_t piece = (size + pieces - 1) / pieces;
    size_t count = 0;
    for (size_t at = 0; at < size; at += piece) parts[count++] = {bytes + at, bytes + at, std::min(piece, size - at)};
    return count;
  };

  const auto each_record = [&](auto&& call) {
    for (size_t at = 0; at < kMessageBytes; at += kGrpcRecordBytes) {
      SLUICE_CHECK(call(message.data() + at, std::min(kGrpcRecordBytes, kMessageBytes - at)) == 1);
    }
  };
  std::vector<std::array<uint8_t, 16>> tags;
  tags.reserve(kMessageBytes / kGrpcRecordBytes + 1);
  for (auto _ : state) {
    for (int i = 0; i < kMessages; ++i) {
      tags.clear();
      each_record([&](uint8_t* bytes, size_t size) {
        const int sealed = EVP_AEAD_CTX_sealv(context.get(), parts.data(), cut(bytes, size), tag.data(), &tag_bytes,
                                              tag.size(), nonce.data(), nonce.size(), nullptr, 0);
        tags.push_back(tag);
        return sealed;
      });
      size_t next = 0;
      each_record([&](uint8_t* bytes, size_t size) {
        const auto& expected = tags[next++];
        return EVP_AEAD_CTX_openv_detached(context.get(), parts.data(), cut(bytes, size), nonce.data(), nonce.size(),
                                           expected.data(), expected.size(), nullptr, 0);
      });
    }
  }
  report_carried(state);
}

/// Adds the seconds of its lifetime.
class Stopwatch {
 public:
  explicit Stopwatch(double& seconds) : seconds_(seconds) {}
  ~Stopwatch() { seconds_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count(); }

 private:
  double& seconds_;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

// Bytes taken from the pool and by the layers themselves.
void report_taken(benchmark::State& state, size_t pool_bytes, size_t heap_bytes) {
  state.counters["pool_bytes/op"] = static_cast<double>(pool_bytes) / static_cast<double>(state.iterations());
  state.counters["heap_bytes/op"] = static_cast<double>(heap_bytes) / static_cast<double>(state.iterations());
}

template <typename Protocol>
void write_memory_usage(benchmark::State& state) {
  ChunkPool pool({.budget_bytes = kBudgetBytes});
  ChunkPool::Use use(&pool);
  Buffer message = message_of(pool, kWrittenBytes);
  size_t pool_bytes = 0, heap_bytes = 0;

  const Costs costs;
  for (auto _ : state) {
    const size_t before = pool.out_bytes();
    const auto layer = std::make_unique<typename Protocol::Layer>(Protocol::state(true));
    Buffer wire;
    layer->seal(pool, message.clone(), wire);
    pool_bytes += pool.out_bytes() - before;
    heap_bytes += malloc_usable_size(layer.get());
  }
  costs.report(state);
  report_taken(state, pool_bytes, heap_bytes);
}

template <typename Protocol>
void read_memory_usage(benchmark::State& state) {
  using Layer = typename Protocol::Layer;
  ChunkPool pool({.budget_bytes = kBudgetBytes});
  ChunkPool::Use use(&pool);
  Buffer message = message_of(pool, kReadBytes);
  size_t pool_bytes = 0, heap_bytes = 0;

  const Costs costs;
  for (auto _ : state) {
    double seconds = 0;
    std::unique_ptr<Layer> client, server;
    {
      Stopwatch watch(seconds);
      client = std::make_unique<Layer>(Protocol::state(true));
      server = std::make_unique<Layer>(Protocol::state(false));
    }
    Buffer wire;
    client->seal(pool, message.clone(), wire);
    const size_t before = pool.out_bytes();
    heap_bytes += malloc_usable_size(client.get()) + malloc_usable_size(server.get());
    {
      Stopwatch watch(seconds);
      Buffer plain;
      std::array<std::byte, kReadRoomBytes> room;
      SLUICE_CHECK(server->open(pool, std::move(wire), plain) == RecordLayer::Status::kOpen);
      SLUICE_CHECK(plain.copy_out(0, room) == kReadBytes);
      benchmark::DoNotOptimize(room);
      pool_bytes += pool.out_bytes() - before;
      plain.clear();
      client.reset();
      server.reset();
    }
    state.SetIterationTime(seconds);
  }
  costs.report(state);
  report_taken(state, pool_bytes, heap_bytes);
}

// ---- With sockets ----

/// Two ends of a TCP connection.
struct Ends {
  int ours;
  int theirs;
};

class Listening {
 public:
  Listening() {
    address_.sin_family = AF_INET;
    address_.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof address_;
    SLUICE_CHECK(fd_ >= 0 && bind(fd_, generic(), length) == 0 && listen(fd_, 16) == 0 &&
                 getsockname(fd_, reinterpret_cast<sockaddr*>(&address_), &length) == 0);
  }
  ~Listening() { ::close(fd_); }

  Ends connect() const {
    const int theirs = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    SLUICE_CHECK(theirs >= 0 && ::connect(theirs, generic(), sizeof address_) == 0);
    const int ours = accept4(fd_, nullptr, nullptr, SOCK_CLOEXEC);
    SLUICE_CHECK(ours >= 0);
    const int on = 1;
    for (const int fd : {ours, theirs}) setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    return {ours, theirs};
  }

 private:
  const sockaddr* generic() const { return reinterpret_cast<const sockaddr*>(&address_); }

  int fd_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address_{};
};

/// A worker on the bench's own thread.
class Home {
 public:
  explicit Home(ReadMode mode) {
    const auto features = probe_features(RingsMode::kAuto);
    SLUICE_CHECK(features.ok());
    auto worker = Worker::open({.features = *features, .budget_bytes = kBudgetBytes, .read_mode = mode});
    SLUICE_CHECK(worker.ok());
    worker_ = *std::move(worker);
    use_.emplace(&worker_->pool());
    worker_->turn(0);
  }

  Worker& worker() { return *worker_; }
  ChunkPool& pool() { return worker_->pool(); }

  template <typename Done>
  void until(Done done) {
    const auto deadline = std::chrono::steady_clock::now() + kPatience;
    worker_->turn(0);  // Submissions made between turns are submitted at the end of a turn.
    while (!done()) {
      SLUICE_CHECK(std::chrono::steady_clock::now() < deadline);
      worker_->turn(1000);
    }
  }
  /// Runs the loop until all pending events are processed.
  void compact() {
    for (int i = 0; i < 8; ++i) worker_->turn(1);
  }

  /// Bytes that are neither free nor posted.
  size_t held_bytes() {
    pool().take_remote_frees();
    return pool().out_bytes() - worker_->small_group().posted_bytes() - worker_->large_group().posted_bytes();
  }

 private:
  std::unique_ptr<Worker> worker_;
  std::optional<ChunkPool::Use> use_;
};

/// A socket and its record layer. Received data is dropped.
template <typename Protocol>
class Connection final : public Socket::Owner {
 public:
  Connection(Home& home, bool is_client, int fd)
      : home_(home), layer_(Protocol::state(is_client)), socket_(home.worker(), *this) {
    socket_.adopt(fd, AF_INET);
    socket_.start_reading();
  }
  ~Connection() {
    abort();
    home_.until([this] { return !socket_.busy(); });
  }

  void write(Buffer&& message) {
    unsealed_ = std::move(message);
    write_more();
  }
  bool written() const { return unsealed_.empty() && socket_.queued() == 0; }
  uint64_t wire_bytes() const { return wire_bytes_; }    ///< Received,
  uint64_t plain_bytes() const { return plain_bytes_; }  ///< and opened.
  void park() { layer_.park(home_.pool()); }
  /// Receives nothing more.
  void abort() { socket_.abort(); }

  void on_connected(Socket&, int) override {}
  void on_data(Socket&, Buffer&& data) override {
    wire_bytes_ += data.size();
    Buffer plain;
    SLUICE_CHECK(layer_.open(home_.pool(), std::move(data), plain) == RecordLayer::Status::kOpen);
    plain_bytes_ += plain.size();
  }
  void on_end(Socket&) override { SLUICE_CHECK(false); }
  void on_sent(Socket&) override { write_more(); }
  void on_error(Socket&, int) override { SLUICE_CHECK(false); }
  void on_closed(Socket&) override {}

 private:
  void write_more() {
    while (!unsealed_.empty() && socket_.queued() < kQueuedBytes) {
      Buffer wire;
      layer_.seal(home_.pool(), unsealed_.split_front(std::min(unsealed_.size(), kPieceBytes)), wire);
      socket_.send(std::move(wire));
    }
  }

  Home& home_;
  typename Protocol::Layer layer_;
  Socket socket_;
  Buffer unsealed_;
  uint64_t wire_bytes_ = 0;
  uint64_t plain_bytes_ = 0;
};

// The reader reads while the writer writes: 20 MiB do not fit into a socket.
template <typename Protocol>
void large_message_by_socket(benchmark::State& state, ReadMode mode) {
  Home home(mode);
  const Ends ends = Listening().connect();
  std::optional<Connection<Protocol>> reader, writer;
  reader.emplace(home, false, ends.ours);
  writer.emplace(home, true, ends.theirs);
  Buffer message = message_of(home.pool(), kMessageBytes);

  const auto pass = [&] {
    const uint64_t end = reader->plain_bytes() + kMessageBytes;
    writer->write(message.clone());
    home.until([&] { return reader->plain_bytes() == end && writer->written(); });
  };
  for (int i = 0; i < kMessages; ++i) pass();

  const Worker::Counters before = home.worker().counters();
  const Costs costs;
  for (auto _ : state) {
    for (int i = 0; i < kMessages; ++i) pass();
  }
  costs.report(state);
  report_carried(state);
  const double mib = static_cast<double>(state.iterations()) * kMessages * (kMessageBytes >> 20);
  state.counters["receives/MiB"] = static_cast<double>(home.worker().counters().receives - before.receives) / mib;
  state.counters["sends/MiB"] = static_cast<double>(home.worker().counters().sends - before.sends) / mib;
  // Neither side sees the other's end.
  reader->abort();
  writer->abort();
}

enum class Before : uint8_t { kWrite, kRead, kDrip };

/// Allocated by malloc. Includes some free blocks: those that glibc caches, at most seven of a size.
size_t heap_bytes() {
  const struct mallinfo2 info = mallinfo2();
  return info.uordblks + info.hblkhd;
}

bool allow_descriptors(size_t count) {
  rlimit limit;
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return false;
  limit.rlim_cur = std::max(limit.rlim_cur, std::min<rlim_t>(limit.rlim_max, count));
  return limit.rlim_cur >= count && setrlimit(RLIMIT_NOFILE, &limit) == 0;
}

template <typename Layer>
std::string sealed(Layer& layer, ChunkPool& pool, size_t bytes) {
  Buffer wire;
  layer.seal(pool, message_of(pool, bytes), wire);
  return wire.to_string();
}
void send_all(int fd, std::string_view bytes) {
  SLUICE_CHECK(::send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(bytes.size()));
}

/// Another connection's traffic: after it, every chunk that was posted at its beginning has been replaced.
template <typename Protocol>
class Traffic {
 public:
  Traffic(Home& home, const Listening& listening) : Traffic(home, listening.connect()) {}
  ~Traffic() {
    reader_.abort();
    ::close(fd_);
  }

  void pass() {
    // Slowly, or it would be received into chunks of another group.
    for (int i = 0; i < 256; ++i) {
      const std::string record = sealed(writer_, home_.pool(), kGrpcRecordBytes);
      const uint64_t end = reader_.wire_bytes() + record.size();
      send_all(fd_, record);
      home_.until([&] { return reader_.wire_bytes() == end; });
    }
    reader_.park();
    writer_.park(home_.pool());
  }

 private:
  Traffic(Home& home, Ends ends) : home_(home), reader_(home, false, ends.ours), fd_(ends.theirs) {}

  Home& home_;
  typename Protocol::Layer writer_{Protocol::state(true)};
  Connection<Protocol> reader_;
  int fd_;
};

// The memory of a connection that waits for data, after it wrote, read, or received only the first byte of a record.
template <typename Protocol>
void memory_while_waiting(benchmark::State& state, Before before, ReadMode mode) {
  if (!allow_descriptors(2 * kConnections + 100)) return state.SkipWithError("too few descriptors are allowed");
  for (auto _ : state) {
    Home home(mode);
    const Listening listening;
    Traffic<Protocol> traffic(home, listening);
    typename Protocol::Layer peer(Protocol::state(true));
    std::string sent = sealed(peer, home.pool(), kReadBytes);
    if (before == Before::kDrip) sent.resize(1);
    peer.park(home.pool());
    std::vector<std::unique_ptr<Connection<Protocol>>> ours;
    std::vector<int> theirs;
    ours.reserve(kConnections);
    theirs.reserve(kConnections);
    traffic.pass();

    const size_t pool_before = home.held_bytes(), heap_before = heap_bytes();
    for (size_t i = 0; i < kConnections; ++i) {
      const Ends ends = listening.connect();
      ours.push_back(std::make_unique<Connection<Protocol>>(home, false, ends.ours));
      theirs.push_back(ends.theirs);
    }
    home.compact();
    for (size_t i = 0; i < kConnections; ++i) {
      if (before == Before::kWrite) {
        ours[i]->write(message_of(home.pool(), kWrittenBytes));
      } else {
        send_all(theirs[i], sent);
      }
    }
    home.until([&] {
      return std::all_of(ours.begin(), ours.end(), [&](const auto& connection) {
        return before == Before::kWrite ? connection->written() : connection->wire_bytes() == sent.size();
      });
    });
    const uint64_t opened = before == Before::kRead ? kReadBytes : 0;
    for (const auto& connection : ours) SLUICE_CHECK(connection->plain_bytes() == opened);

    const auto each = [](size_t bytes, size_t bytes_before) {
      return (static_cast<double>(bytes) - static_cast<double>(bytes_before)) / static_cast<double>(kConnections);
    };
    home.compact();
    state.counters["unparked_pool_bytes"] = each(home.held_bytes(), pool_before);
    for (const auto& connection : ours) connection->park();
    traffic.pass();
    home.compact();
    state.counters["pool_bytes"] = each(home.held_bytes(), pool_before);
    state.counters["heap_bytes"] = each(heap_bytes(), heap_before);
    for (const auto& connection : ours) connection->abort();
    ours.clear();
    for (const int fd : theirs) ::close(fd);
    SLUICE_CHECK(home.held_bytes() == pool_before);
  }
}

// ---- Names ----

constexpr std::pair<const char*, ReadMode> kReadModes[] = {
    {"provided", ReadMode::kProvided}, {"ready", ReadMode::kReady}, {"pinned", ReadMode::kPinned}};
constexpr std::pair<const char*, Manner> kManners[] = {
    {"grpc_go", Manner::kGrpcGo}, {"kept", Manner::kKept}, {"in_place", Manner::kInPlace}};
constexpr std::pair<const char*, Before> kWaits[] = {{"WriteMemoryUsage/waiting", Before::kWrite},
                                                     {"ReadMemoryUsage/waiting", Before::kRead},
                                                     {"ReadMemoryUsage/drip", Before::kDrip}};

/// Rows are named bench/what/protocol.
template <typename Protocol>
void add_in_memory() {
  for (const auto& [name, manner] : kManners) {
    benchmark::RegisterBenchmark((std::string("LargeMessage/") + name + "/" + Protocol::kName).c_str(),
                                 large_message<Protocol>, manner)
        ->Unit(benchmark::kMillisecond);
  }
}
template <typename Protocol>
void add_protocol() {
  const auto add = [](std::string row, auto bench, auto... arguments) {
    return benchmark::RegisterBenchmark((row + "/" + Protocol::kName).c_str(), bench, arguments...);
  };
  add_in_memory<Protocol>();
  for (const auto& [name, mode] : kReadModes) {
    // The kernel may do part of it on threads of its own, which count for the process.
    add(std::string("LargeMessage/") + name, large_message_by_socket<Protocol>, mode)
        ->Unit(benchmark::kMillisecond)
        ->MeasureProcessCPUTime()
        ->UseRealTime();
  }
  add("WriteMemoryUsage/grpc_go", write_memory_usage<Protocol>);
  add("ReadMemoryUsage/grpc_go", read_memory_usage<Protocol>)->UseManualTime();
  for (const auto& [row, before] : kWaits) {
    for (const auto& [name, mode] : kReadModes) {
      add(std::string(row) + "_" + name, memory_while_waiting<Protocol>, before, mode)
          ->Unit(benchmark::kMillisecond)
          ->Iterations(1);
    }
  }
}

}  // namespace
}  // namespace sluice

int main(int argc, char** argv) {
  const std::pair<const char*, const EVP_AEAD*> ciphers[] = {{"aes128gcm", EVP_aead_aes_128_gcm()},
                                                             {"aes256gcm", EVP_aead_aes_256_gcm()},
                                                             {"chacha20", EVP_aead_chacha20_poly1305()}};
  for (const auto& [name, aead] : ciphers) {
    benchmark::RegisterBenchmark((std::string("LargeMessage/cipher/") + name).c_str(), sluice::large_message_cipher,
                                 aead, 1)
        ->Unit(benchmark::kMillisecond);
    benchmark::RegisterBenchmark((std::string("LargeMessage/cipher/") + name + "_in_4").c_str(),
                                 sluice::large_message_cipher, aead, 4)
        ->Unit(benchmark::kMillisecond);
  }
  sluice::add_in_memory<sluice::Plain>();
  sluice::add_in_memory<sluice::Tls12>();
  sluice::add_in_memory<sluice::Tls13With<sluice::Tls13Cipher::kAes256Gcm>>();
  sluice::add_in_memory<sluice::Tls13With<sluice::Tls13Cipher::kChaCha20Poly1305>>();
  sluice::add_protocol<sluice::Tls13>();
  sluice::add_protocol<sluice::Alts>();
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return 0;
}
