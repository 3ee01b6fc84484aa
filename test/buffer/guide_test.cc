// Runs the examples of docs/iobuf/guide.md, and checks that they are the same as here (those of protobuf are in
// protobuf_streams_test.cc).

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <sstream>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "sluice/appender.h"
#include "sluice/budget.h"
#include "sluice/buffer.h"
#include "sluice/cursor.h"
#include "sluice/reservation.h"
#include "sluice/shared_buffer.h"
#include "sluice/thread_pool.h"
#include "test/buffer/pool_fixture.h"

namespace sluice {
namespace {

class Guide : public test::PoolTest {};

// Reads what there is into the buffer's own tail, or a fresh chunk. False at the end, on an error, or without memory.
bool read_some(int fd, ChunkPool& pool, Buffer& input) {
  Lease room = input.reserve(pool, 4096);
  if (!room) return false;
  const ssize_t count = read(fd, room.data(), room.size());
  if (count <= 0) return false;
  room.truncate(static_cast<size_t>(count));
  input.append(std::move(room));
  return true;
}

// Takes the next frame (type, 24 bits of length, payload) off the input, or nothing when it is not all there.
std::optional<Buffer> next_frame(Buffer& input, uint8_t* type) {
  Cursor header(input);
  *type = header.u8();
  const uint32_t length = header.u24be();
  if (!header.ok() || header.remaining() < length) return std::nullopt;
  input.trim_front(4);
  return input.split_front(length);  // Shares the chunk that is cut in two; no byte moves.
}

// Sends what the socket takes; what is left stays in the buffer.
bool send_some(int fd, Buffer& output) {
  std::array<iovec, 16> iovecs;
  msghdr message{};
  message.msg_iov = iovecs.data();
  message.msg_iovlen = output.fill_iovecs(iovecs);
  const ssize_t count = sendmsg(fd, &message, MSG_NOSIGNAL);
  if (count < 0) return false;
  output.trim_front(static_cast<size_t>(count));
  return true;
}

TEST_F(Guide, ReadsFramesAndSendsThem) {
  int sockets[2], others[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, sockets), 0);
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, others), 0);
  const std::string frames("\1\0\0\5hello\2\0\0\6 world\3\0\0", 22);
  ASSERT_EQ(write(sockets[0], frames.data(), frames.size()), static_cast<ssize_t>(frames.size()));
  {
    Buffer input, output;
    uint8_t type = 0;
    ASSERT_TRUE(read_some(sockets[1], pool_, input));
    while (std::optional<Buffer> frame = next_frame(input, &type)) output.append(*std::move(frame));
    EXPECT_TRUE(output == "hello world");
    EXPECT_EQ(input.size(), 3u);
    ASSERT_TRUE(send_some(others[0], output));
    EXPECT_TRUE(output.empty());
  }
  std::array<char, 20> got;
  EXPECT_EQ(read(others[1], got.data(), got.size()), 11);
  EXPECT_EQ(copied(), 0u);
  for (const int fd : {sockets[0], sockets[1], others[0], others[1]}) close(fd);
}

TEST(GuideThreads, APool) {
  ChunkPool pool({.budget_bytes = 64 << 20});
  ChunkPool::Use use(&pool);  // The current pool of this thread until the end of the scope.
  Buffer buffer;
  EXPECT_TRUE(buffer.append_copy(pool, "hello"));
}

// Puts a header before a payload of any length: into the headroom, or into a chunk of its own.
bool seal(ChunkPool& pool, uint8_t type, Buffer& payload) {
  Buffer header;
  Appender out(header, pool, 64);
  out.u8(type);
  out.u24be(static_cast<uint32_t>(payload.size()));
  out.commit();
  if (!out.ok()) return false;
  payload.prepend(std::move(header));
  return true;
}

TEST_F(Guide, PutsAHeaderBefore) {
  Buffer payload = buffer_of("hello");
  ASSERT_TRUE(seal(pool_, 1, payload));
  EXPECT_TRUE(payload == std::string_view("\1\0\0\5hello", 9));
  uint8_t type = 0;
  EXPECT_TRUE(next_frame(payload, &type) == buffer_of("hello"));
  EXPECT_EQ(type, 1u);
}

// Reads as much as is there, in one call, into several chunks.
bool read_much(int fd, ChunkPool& pool, Buffer& input) {
  Reservation room(input, pool, 256 << 10);
  if (room.empty()) return false;
  const ssize_t count = readv(fd, room.iovecs().data(), static_cast<int>(room.iovecs().size()));
  if (count <= 0) return false;
  room.commit(static_cast<size_t>(count));
  return true;
}

// The lines of a request, as far as they are there.
std::vector<std::string> lines(Buffer& input) {
  std::vector<std::string> texts;
  while (std::optional<Buffer> line = input.split_until("\r\n")) texts.push_back(line->to_string());
  return texts;
}

TEST_F(Guide, ReadsMuchAndSplitsLines) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const std::string_view sent = "GET / HTTP/1.1\r\nHost: a\r\n\r";
  ASSERT_EQ(write(ends[1], sent.data(), sent.size()), static_cast<ssize_t>(sent.size()));
  Buffer input;
  ASSERT_TRUE(read_much(ends[0], pool_, input));
  EXPECT_EQ(lines(input), (std::vector<std::string>{"GET / HTTP/1.1", "Host: a"}));
  EXPECT_EQ(test::text_of(input), "\r");
  for (const int end : ends) close(end);
}

// A field of protobuf (number 2, bytes) whose length is known only once it is written.
bool write_field(ChunkPool& pool, Buffer& output, std::span<const std::string_view> parts) {
  Appender out(output, pool);
  out.varint(2 << 3 | 2);
  const Appender::Gap length = out.gap(5);
  for (const std::string_view part : parts) out.text(part);
  out.fill_varint(length, out.bytes_after(length));
  return out.ok();
}

enum class Parsed { kWhole, kMore, kWrong };

Parsed read_field(const Buffer& input, uint64_t* number, std::string* bytes) {
  Cursor in(input);
  *number = in.varint64() >> 3;
  const uint32_t length = in.varint32();
  if (!in.ok()) return in.error() == Cursor::Error::kEnd ? Parsed::kMore : Parsed::kWrong;
  if (in.remaining() < length) return Parsed::kMore;
  bytes->resize(length);
  in.read(std::as_writable_bytes(std::span(*bytes)));
  return Parsed::kWhole;
}

TEST_F(Guide, WritesALengthLater) {
  Buffer output;
  ASSERT_TRUE(write_field(pool_, output, std::array<std::string_view, 2>{"hello ", "world"}));
  uint64_t number = 0;
  std::string bytes;
  EXPECT_EQ(read_field(output, &number, &bytes), Parsed::kWhole);
  EXPECT_EQ(number, 2u);
  EXPECT_EQ(bytes, "hello world");
  output.truncate(3);
  EXPECT_EQ(read_field(output, &number, &bytes), Parsed::kMore);
  EXPECT_EQ(read_field(buffer_of(std::string(11, '\xff')), &number, &bytes), Parsed::kWrong);
}

// Any cipher that works in place: decrypts `count` bytes from `offset` on where they lie, copying only what is shared.
template <typename Cipher>
bool decrypt(ChunkPool& pool, Buffer& record, size_t offset, size_t count, Cipher cipher) {
  if (!record.make_writable(pool, offset, count)) return false;  // Nothing to do for what came off a socket.
  std::array<Buffer::InOut, 16> pieces;
  const size_t filled = record.fill_in_place(offset, count, pieces);
  if (filled == 0) return false;  // More windows than that: pull_up some first.
  for (const Buffer::InOut& piece : std::span(pieces).first(filled)) cipher(piece.in, piece.out, piece.bytes);
  return true;
}

TEST_F(Guide, DecryptsInPlace) {
  const auto flip = [](const std::byte* in, std::byte* out, size_t bytes) {
    for (size_t i = 0; i < bytes; ++i) out[i] = in[i] ^ std::byte{0x20};
  };
  Buffer record = in_windows({"12345HEL", "LO", "1234"});
  ASSERT_TRUE(decrypt(pool_, record, 5, 5, flip));
  EXPECT_TRUE(record == "12345hello1234");
  EXPECT_EQ(copied(), 0u);
  const Buffer other = record.clone();
  ASSERT_TRUE(decrypt(pool_, record, 5, 5, flip));
  EXPECT_TRUE(record == "12345HELLO1234");
  EXPECT_TRUE(other == "12345hello1234");
  EXPECT_EQ(copied(), 5u);
}

TEST_F(Guide, SharesAndOverwrites) {
  Buffer request = buffer_of("GET /a HTTP/1.1\r\n\r\n");
  Buffer mirrored = request.clone();  // Both are read-only now.
  ASSERT_TRUE(request.write_at(pool_, 5, std::as_bytes(std::span("b", 1))));
  EXPECT_TRUE(request == "GET /b HTTP/1.1\r\n\r\n");  // One byte was copied, and overwritten;
  EXPECT_TRUE(mirrored.starts_with("GET /a"));        // nobody else saw it.
  EXPECT_EQ(request.find("\r\n\r\n"), 15u);
  EXPECT_EQ(copied(), 2u);
}

// A literal, which is never given back; and memory with an owner, which is.
Buffer page(std::string* body) {
  Buffer buffer;
  buffer.append(View::adopt("HTTP/1.1 200 OK\r\n\r\n", 19, nullptr));
  buffer.append(View::adopt(
      body->data(), body->size(), [](void* owner, std::byte*, size_t) { delete static_cast<std::string*>(owner); },
      body));
  return buffer;
}

TEST_F(Guide, AdoptsMemory) {
  Buffer buffer = page(new std::string("hello"));
  EXPECT_TRUE(buffer == "HTTP/1.1 200 OK\r\n\r\nhello");
  EXPECT_TRUE(buffer.writable_window(1).empty());
}

struct Device {
  static void unregister(void* device, std::byte*, size_t) { static_cast<Device*>(device)->registered = false; }
  alignas(4096) std::byte region[1 << 20];
  bool registered = true;
};

// A pool over memory that was made known to a device.
std::unique_ptr<ChunkPool> pool_of(Device& device) {
  return std::make_unique<ChunkPool>(ChunkPool::Options{
      .memory = {
          .data = device.region, .bytes = sizeof(device.region), .release = &Device::unregister, .context = &device}});
}

TEST_F(Guide, TakesMemoryOfTheCaller) {
  const auto device = std::make_unique<Device>();
  std::unique_ptr<ChunkPool> pool = pool_of(*device);
  {
    const ChunkPool::Use use(pool.get());
    Buffer buffer;
    ASSERT_TRUE(buffer.append_copy(*pool, "hello"));
    const ptrdiff_t offset = buffer.window(0).data() - device->region;
    EXPECT_TRUE(offset >= 0 && offset < ptrdiff_t{sizeof(device->region)});
  }
  EXPECT_TRUE(device->registered);
  pool.reset();
  EXPECT_FALSE(device->registered);
}

TEST_F(Guide, HandsOver) {
  Buffer buffer = buffer_of("hello");
  std::thread other([moved = std::move(buffer)]() mutable {
    ChunkPool own({.budget_bytes = 1 << 20});
    ChunkPool::Use use(&own);
    EXPECT_TRUE(moved.append_copy(own, " world"));  // Into the tail of the other thread's chunk: it is ours alone.
    moved.clear();                                  // The chunk sets out for its home,
  });
  other.join();
  pool_.take_remote_frees();  // and has arrived.
  EXPECT_EQ(pool_.leaked(), 0u);
}

// Entries that threads get while others put some.
class Cache {
 public:
  void put(const std::string& key, Buffer&& response) {
    SharedBuffer entry = SharedBuffer::from(std::move(response));
    const std::lock_guard lock(mutex_);
    entries_.insert_or_assign(key, std::move(entry));
  }
  /// A buffer of the calling thread, which it may change and send.
  std::optional<Buffer> get(const std::string& key) const {
    const std::lock_guard lock(mutex_);
    const auto entry = entries_.find(key);
    if (entry == entries_.end()) return std::nullopt;
    return entry->second.to_buffer();
  }

 private:
  mutable std::mutex mutex_;
  std::map<std::string, SharedBuffer> entries_;
};

TEST_F(Guide, CachesForAllThreads) {
  Cache cache;
  cache.put("/", buffer_of("hello"));
  std::array<std::thread, 2> threads;
  for (std::thread& thread : threads) {
    thread = std::thread([&cache] {
      EXPECT_TRUE(*cache.get("/") == "hello");
      EXPECT_FALSE(cache.get("/other"));
    });
  }
  cache.put("/", buffer_of("hello"));
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(copied(), 0u);
}

TEST(GuideThreads, PoolsOfThreads) {
  std::thread([] {
    Buffer buffer;
    EXPECT_TRUE(buffer.append_copy(thread_pool(), "hello"));  // Made for this thread, and current on it.
  }).join();
}

TEST(GuideThreads, BudgetsAndPressure) {
  Budget all(size_t{1} << 30);  // For all pools together.
  ChunkPool pool({.budget_bytes = 64 << 20, .shared = &all});
  ChunkPool::Use use(&pool);

  bool pressed = false;
  pool.set_pressure(
      48 << 20, 32 << 20, [](void* context, bool high) { *static_cast<bool*>(context) = high; }, &pressed);

  Buffer backlog;
  while (backlog.append_copy(pool, "one more line of what a slow reader has not taken yet\n")) {
    if (pressed) break;  // Stop reading from whoever fills it; go on when it is false again.
  }
  EXPECT_TRUE(pressed);
  backlog.clear();
  EXPECT_FALSE(pressed);
}

TEST_F(Guide, Describes) {
  const Buffer input = buffer_of("GET / HTTP/1.1\r\n");
  std::ostringstream log;
  log << "cannot parse " << input;
  EXPECT_EQ(log.str(), R"(cannot parse 16 bytes in 1 window: "GET / HTTP/1.1\r\n")");
  EXPECT_EQ(input.describe(3), R"(16 bytes in 1 window: "GET"...)");
  EXPECT_EQ(input.hex_dump(0, 4), "00000000  47 45 54 20                                       |GET |\n");
}

TEST_F(Guide, Settles) {
  Buffer input = buffer_of(std::string(16'000, 'x') + "a part of the next frame");
  input.trim_front(16'000);
  EXPECT_EQ(input.pinned_bytes(), 16'384u);
  input.compact(pool_);  // Before the connection waits.
  EXPECT_EQ(input.pinned_bytes(), 64u);
}

// ---- The guide's text ----

std::string contents(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

// Without indentation and empty lines.
std::string lines_of(std::string_view text) {
  std::string lines;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    if (const size_t begin = line.find_first_not_of(' '); begin != std::string_view::npos) {
      lines += line.substr(begin);
      lines += '\n';
    }
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

TEST(GuideText, ExamplesAreTheSame) {
  const std::string guide = contents(SLUICE_SOURCE_DIR "/docs/iobuf/guide.md");
  const std::string code = lines_of(contents(SLUICE_SOURCE_DIR "/test/buffer/guide_test.cc") +
                                    contents(SLUICE_SOURCE_DIR "/test/buffer/protobuf_streams_test.cc"));
  const std::string_view begin = "```cpp\n", end = "```";
  size_t examples = 0;
  for (size_t at = guide.find(begin); at != std::string::npos; at = guide.find(begin, at)) {
    at += begin.size();
    const size_t size = guide.find(end, at) - at;
    const std::string example = lines_of(std::string_view(guide).substr(at, size));
    EXPECT_NE(code.find(example), std::string::npos) << "in no test:\n" << example;
    at += size + end.size();
    ++examples;
  }
  EXPECT_GE(examples, 8u);
}

}  // namespace
}  // namespace sluice
