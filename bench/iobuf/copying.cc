// Copying and reading bytes.

#include <array>
#include <cstdlib>
#include <span>
#include <vector>

#include "bench/iobuf/home.h"
#include "sluice/cursor.h"

namespace sluice::bench {
namespace {

std::vector<std::byte> some_bytes(size_t bytes) { return std::vector<std::byte>(bytes, std::byte{7}); }
std::string_view as_text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// Bytes are copied into an empty buffer, which is dropped.

void copy_sizes(benchmark::internal::Benchmark* bench) { bench->Arg(64)->Arg(1500)->Arg(4096); }

void append_copy_sluice(benchmark::State& state) {
  Home home;
  const std::vector<std::byte> from = some_bytes(argument(state));
  run(state, [&] {
    Buffer buffer;
    benchmark::DoNotOptimize(buffer.append_copy(home.pool(), from));
    benchmark::DoNotOptimize(buffer);
  });
}
BENCHMARK(append_copy_sluice)->Name("append_copy/sluice")->Apply(copy_sizes);

void append_copy_malloc(benchmark::State& state) {
  const std::vector<std::byte> from = some_bytes(argument(state));
  run(state, [&] {
    void* buffer = std::malloc(from.size());
    std::memcpy(buffer, from.data(), from.size());
    benchmark::DoNotOptimize(buffer);
    std::free(buffer);
  });
}
BENCHMARK(append_copy_malloc)->Name("append_copy/malloc")->Apply(copy_sizes);

void append_copy_cord(benchmark::State& state) {
  const std::vector<std::byte> from = some_bytes(argument(state));
  run(state, [&] {
    absl::Cord buffer;
    buffer.Append(as_text(from));
    benchmark::DoNotOptimize(buffer);
  });
}
BENCHMARK(append_copy_cord)->Name("append_copy/cord")->Apply(copy_sizes);

// 64 pieces of some bytes are appended one after the other, and everything is dropped. The time is for one piece.

constexpr size_t kSmallPieces = 64;

void small_sizes(benchmark::internal::Benchmark* bench) { bench->Arg(64)->Arg(100); }

void append_small_sluice(benchmark::State& state) {
  Home home;
  const std::vector<std::byte> from = some_bytes(argument(state));
  run(state, kSmallPieces, [&] {
    Buffer buffer;
    for (size_t i = 0; i < kSmallPieces; ++i) benchmark::DoNotOptimize(buffer.append_copy(home.pool(), from));
    benchmark::DoNotOptimize(buffer);
  });
}
BENCHMARK(append_small_sluice)->Name("append_small/sluice")->Apply(small_sizes);

void append_small_cord(benchmark::State& state) {
  const std::vector<std::byte> from = some_bytes(argument(state));
  run(state, kSmallPieces, [&] {
    absl::Cord buffer;
    for (size_t i = 0; i < kSmallPieces; ++i) buffer.Append(as_text(from));
    benchmark::DoNotOptimize(buffer);
  });
}
BENCHMARK(append_small_cord)->Name("append_small/cord")->Apply(small_sizes);

// The same with pieces that are in shared memory already; each is copied if its library recommends that.

void append_packed_sluice(benchmark::State& state) {
  Home home;
  View piece = home.view();
  piece.truncate(argument(state));
  run(state, kSmallPieces, [&] {
    Buffer buffer;
    for (size_t i = 0; i < kSmallPieces; ++i) buffer.append_packed(home.pool(), piece.clone());
    benchmark::DoNotOptimize(buffer);
  });
}
BENCHMARK(append_packed_sluice)->Name("append_packed/sluice")->Apply(small_sizes);

void append_packed_cord(benchmark::State& state) {
  const absl::Cord piece = cord().Subcord(0, argument(state));
  run(state, kSmallPieces, [&] {
    absl::Cord buffer;
    for (size_t i = 0; i < kSmallPieces; ++i) buffer.Append(piece);
    benchmark::DoNotOptimize(buffer);
  });
}
BENCHMARK(append_packed_cord)->Name("append_packed/cord")->Apply(small_sizes);

// A header of 9 bytes, like that of an HTTP/2 frame, is put before 4,000 bytes that leave room for it, and removed
// again.

constexpr size_t kHeaderBytes = 9;

void prepend_header_sluice(benchmark::State& state) {
  Home home;
  const std::vector<std::byte> header = some_bytes(kHeaderBytes);
  Lease body = Lease::allocate(home.pool(), 4000, 64);
  body.grow_back(4000);
  Buffer buffer;
  buffer.append(std::move(body));
  run(state, [&] {
    benchmark::DoNotOptimize(buffer.prepend_copy(home.pool(), header));
    benchmark::DoNotOptimize(buffer);
    buffer.trim_front(kHeaderBytes);
  });
}
BENCHMARK(prepend_header_sluice)->Name("prepend_header/sluice");

void prepend_header_cord(benchmark::State& state) {
  const std::vector<std::byte> header = some_bytes(kHeaderBytes);
  absl::Cord buffer = cord(4000);
  run(state, [&] {
    buffer.Prepend(as_text(header));
    benchmark::DoNotOptimize(buffer);
    buffer.RemovePrefix(kHeaderBytes);
  });
}
BENCHMARK(prepend_header_cord)->Name("prepend_header/cord");

// Two references to shared pieces of 2 KiB are chained, made contiguous and dropped.

void pull_up_sluice(benchmark::State& state) {
  Home home;
  View first = home.view(kPieceBytes / 2), second = home.view(kPieceBytes / 2);
  run(state, [&] {
    Buffer buffer;
    buffer.append(first.clone());
    buffer.append(second.clone());
    benchmark::DoNotOptimize(buffer.pull_up(home.pool(), 0, kPieceBytes));
  });
}
BENCHMARK(pull_up_sluice)->Name("pull_up/sluice");

void pull_up_malloc(benchmark::State& state) {
  const std::vector<std::byte> first = some_bytes(kPieceBytes / 2), second = first;
  run(state, [&] {
    std::byte* all = static_cast<std::byte*>(std::malloc(kPieceBytes));
    std::memcpy(all, first.data(), first.size());
    std::memcpy(all + first.size(), second.data(), second.size());
    benchmark::DoNotOptimize(all);
    std::free(all);
  });
}
BENCHMARK(pull_up_malloc)->Name("pull_up/malloc");

void pull_up_cord(benchmark::State& state) {
  const absl::Cord first = cord(kPieceBytes / 2), second = cord(kPieceBytes / 2);
  run(state, [&] {
    absl::Cord chain = first;
    chain.Append(second);
    benchmark::DoNotOptimize(chain.Flatten());
  });
}
BENCHMARK(pull_up_cord)->Name("pull_up/cord");

// A header of 9 bytes is read as one span: in one piece (0), and across two pieces (1).

void both_places(benchmark::internal::Benchmark* bench) { bench->Arg(0)->Arg(1); }

void fetch_sluice(benchmark::State& state) {
  Home home;
  Buffer buffer;
  buffer.append(home.view(argument(state) ? 5 : kPieceBytes));
  buffer.append(home.view());
  std::array<std::byte, kHeaderBytes> scratch;
  run(state, [&] { benchmark::DoNotOptimize(buffer.fetch(kHeaderBytes, scratch)); });
}
BENCHMARK(fetch_sluice)->Name("fetch/sluice")->Apply(both_places);

void fetch_cord(benchmark::State& state) {
  absl::Cord chain = argument(state) ? cord().Subcord(0, 5) : cord();
  chain.Append(cord());
  run(state, [&] {
    absl::Cord header = chain.Subcord(0, kHeaderBytes);
    benchmark::DoNotOptimize(header.Flatten());
  });
}
BENCHMARK(fetch_cord)->Name("fetch/cord")->Apply(both_places);

// The fields of such a header are read one by one, across two pieces.

void cursor_sluice(benchmark::State& state) {
  Home home;
  Buffer buffer;
  buffer.append(home.view(5));
  buffer.append(home.view());
  run(state, [&] {
    Cursor cursor(buffer);
    benchmark::DoNotOptimize(cursor.u24be());
    benchmark::DoNotOptimize(cursor.u16be());
    benchmark::DoNotOptimize(cursor.u32be());
    benchmark::DoNotOptimize(cursor.ok());
  });
}
BENCHMARK(cursor_sluice)->Name("cursor/sluice");

template <size_t kBytes>
uint64_t big_endian(absl::Cord::CharIterator& at) {
  uint64_t value = 0;
  for (size_t i = 0; i < kBytes; ++i, ++at) value = value << 8 | static_cast<uint8_t>(*at);
  return value;
}

void cursor_cord(benchmark::State& state) {
  absl::Cord chain = cord().Subcord(0, 5);
  chain.Append(cord());
  run(state, [&] {
    absl::Cord::CharIterator at = chain.char_begin();
    benchmark::DoNotOptimize(big_endian<3>(at));
    benchmark::DoNotOptimize(big_endian<2>(at));
    benchmark::DoNotOptimize(big_endian<4>(at));
  });
}
BENCHMARK(cursor_cord)->Name("cursor/cord");

// 100 bytes that are left of a piece of 4 KiB are moved to a smaller one, and dropped. The piece has no other holder.
void settle_sluice(benchmark::State& state) {
  Home home;
  run(state, [&] {
    Buffer buffer;
    buffer.append(home.lease());
    buffer.truncate(100);
    benchmark::DoNotOptimize(buffer.compact(home.pool()));
  });
}
BENCHMARK(settle_sluice)->Name("settle/sluice");

}  // namespace
}  // namespace sluice::bench
