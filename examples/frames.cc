// Splits a stream into length-prefixed frames (four bytes, big endian, for the length of the rest) without copying a
// payload: an example of a parser on Buffer. Needs sluice::iobuf alone.
//
//     frames [FILE]        reads standard input without FILE

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <utility>

#include <sluice/buffer.h>
#include <sluice/chunk_pool.h>
#include <sluice/copied.h>
#include <sluice/cursor.h>

namespace {

using sluice::Buffer;
using sluice::ChunkPool;
using sluice::Cursor;
using sluice::Lease;

constexpr size_t kHeaderBytes = 4;
// A bound on the memory that a sender can make us keep. The pool's budget is the second one: it holds a few such
// frames.
constexpr size_t kMaxFrameBytes = size_t{16} << 20;
constexpr size_t kBudgetBytes = 4 * kMaxFrameBytes;
constexpr size_t kReadBytes = 16 * 1024;
constexpr size_t kSmallestReadBytes = 1024;

enum class Next : uint8_t { kFrame, kNeedMore, kTooLarge };

// Moves the next frame's payload from the front of `input` to `frame`. Nothing is removed before all of it has arrived,
// so a parser needs no state between calls.
Next next_frame(Buffer& input, Buffer& frame) {
  Cursor cursor(input);
  const uint32_t bytes = cursor.u32be();
  if (!cursor.ok()) return Next::kNeedMore;
  if (bytes > kMaxFrameBytes) return Next::kTooLarge;
  if (cursor.remaining() < bytes) return Next::kNeedMore;
  input.trim_front(kHeaderBytes);
  frame = input.split_front(bytes);  // Shares the chunk in which it ends; no byte moves.
  return Next::kFrame;
}

// Reads once to the end of `input`. Returns like read(2), and ENOMEM when the pool's budget is exhausted.
ssize_t read_more(int fd, ChunkPool& pool, Buffer& input) {
  const size_t rest_of_chunk = input.tailroom();
  Lease room = input.reserve(pool, rest_of_chunk >= kSmallestReadBytes ? rest_of_chunk : kReadBytes);
  if (!room) {
    errno = ENOMEM;
    return -1;
  }
  const ssize_t count = read(fd, room.data(), room.size());
  if (count <= 0) return count;
  room.truncate(static_cast<size_t>(count));
  input.append(std::move(room));
  return count;
}

int split(int fd, const char* name) {
  ChunkPool pool({.budget_bytes = kBudgetBytes});
  ChunkPool::Use use(&pool);
  Buffer input;
  uint64_t frames = 0;
  uint64_t payload_bytes = 0;
  for (;;) {
    Buffer frame;
    Next next = next_frame(input, frame);
    for (; next == Next::kFrame; next = next_frame(input, frame)) {
      payload_bytes += frame.size();
      // Here a program would use the frame: read it with a Cursor, pass it on, or keep it.
      std::printf("%llu: %zu bytes in %zu windows, checksum %04x\n", static_cast<unsigned long long>(++frames),
                  frame.size(), frame.window_count(), frame.checksum());
      frame.clear();
    }
    if (next == Next::kTooLarge) {
      std::fprintf(stderr, "frames: %s: frame %llu has more than %zu bytes\n", name,
                   static_cast<unsigned long long>(frames + 1), kMaxFrameBytes);
      return 1;
    }
    // Reading may take long. Until then the few bytes of a frame's beginning should not keep a large chunk.
    input.compact(pool);
    const ssize_t count = read_more(fd, pool, input);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) {
      std::fprintf(stderr, "frames: cannot read %s: %s\n", name, std::strerror(errno));
      return 1;
    }
    if (count == 0) break;
  }
  std::printf("%llu frames, %llu bytes, %llu bytes copied, %zu bytes of chunks at most\n",
              static_cast<unsigned long long>(frames), static_cast<unsigned long long>(payload_bytes),
              static_cast<unsigned long long>(sluice::copied_bytes), pool.stats().out_bytes_peak);
  if (!input.empty()) {
    std::fprintf(stderr, "frames: %s ends within a frame: %zu bytes are left\n", name, input.size());
    return 1;
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc > 2) {
    std::fprintf(stderr, "usage: frames [FILE]\n");
    return 2;
  }
  const char* name = argc > 1 ? argv[1] : "standard input";
  const int fd = argc > 1 ? open(name, O_RDONLY | O_CLOEXEC) : STDIN_FILENO;
  if (fd < 0) {
    std::fprintf(stderr, "frames: cannot open %s: %s\n", name, std::strerror(errno));
    return 1;
  }
  const int code = split(fd, name);
  if (argc > 1) close(fd);
  return code;
}
