// What must not compile: an accidental second owner, and writing through anything shared.

#include <gtest/gtest.h>

#include <concepts>
#include <cstddef>
#include <span>
#include <type_traits>
#include <utility>

#include "sluice/buffer.h"
#include "test/buffer/pool_fixture.h"

namespace sluice {
namespace {

template <typename T>
concept MoveOnly = !std::is_copy_constructible_v<T> && !std::is_copy_assignable_v<T> &&
                   std::is_nothrow_move_constructible_v<T> && std::is_nothrow_move_assignable_v<T>;
static_assert(MoveOnly<Lease> && MoveOnly<View> && MoveOnly<Buffer> && MoveOnly<ChunkRef>);

template <typename T>
concept Clonable = requires(T& t) { t.clone(); };
static_assert(Clonable<View> && Clonable<Buffer>);
static_assert(!Clonable<Lease>, "freeze it first");
static_assert(!Clonable<const View> && !Clonable<const Buffer>, "who only borrows it may not, as it may race");

template <typename T>
concept Shares = requires(T& t) { t.share(); };
static_assert(!Shares<ChunkRef>, "its bytes may be written, so there is one");

// Reading returns const bytes; a view cannot be converted to a writable type.
static_assert(std::same_as<decltype(std::declval<View&>().data()), const std::byte*>);
static_assert(std::same_as<decltype(std::declval<View&>().bytes()), std::span<const std::byte>>);
static_assert(std::same_as<decltype(std::declval<Buffer&>().window(0)), std::span<const std::byte>>);
static_assert(std::same_as<decltype(std::declval<Buffer&>().back()), std::span<const std::byte>>);
static_assert(std::same_as<decltype(*std::declval<Buffer&>().windows().begin()), std::span<const std::byte>>);
static_assert(std::same_as<decltype(std::declval<Buffer&>().fetch(0, {})), std::span<const std::byte>>);
static_assert(!std::is_constructible_v<Lease, View> && !std::is_constructible_v<Lease, View&&>);
template <typename T>
concept Thaws = requires(T t) { std::move(t).thaw(); };
static_assert(!Thaws<View>);

// A lease is writable, unless it is const.
static_assert(std::same_as<decltype(std::declval<Lease&>().data()), std::byte*>);
static_assert(std::same_as<decltype(std::declval<const Lease&>().data()), const std::byte*>);
static_assert(std::same_as<decltype(std::declval<const Lease&>().bytes()), std::span<const std::byte>>);

// A buffer is changed only through itself.
template <typename T>
concept Writes = requires(T& t) { t.writable_window(0); };
static_assert(Writes<Buffer> && !Writes<const Buffer>);

// A window must be moved explicitly into a buffer.
template <typename T>
concept TakenBy = requires(Buffer& b, T t) { b.append(t); };
static_assert(!TakenBy<Lease&> && !TakenBy<View&> && !TakenBy<Buffer&>);
template <typename T>
concept FreezesInPlace = requires(T& t) { t.freeze(); };
static_assert(!FreezesInPlace<Lease>);

using SharingByTypeDeathTest = test::PoolTest;

// Defect: a lease could be made of a shared chunk.
TEST_F(SharingByTypeDeathTest, LeaseIsNotMadeOfASharedChunk) {
  ChunkRef chunk = ChunkRef::take(pool_.get(64));
  chunk_ref(chunk.get());
  const View other(ChunkRef::take(chunk.get()), 0, 64);
  EXPECT_DEATH(Lease(std::move(chunk), 0, 64), "check failed.*writable");
}

// Defect: in release builds, windows beyond their chunk were made, and sizes cut to 32 bits.
TEST_F(SharingByTypeDeathTest, WindowsAreWithinTheirChunk) {
  const auto chunk = [&] { return ChunkRef::take(pool_.get(64)); };
  for (const auto& [offset, size] : {std::pair<size_t, size_t>{0, 65},
                                     {65, 0},
                                     {1, 64},
                                     {size_t{1} << 32, 1},
                                     {0, size_t{1} << 32},
                                     {SIZE_MAX, 2},
                                     {2, SIZE_MAX}}) {
    EXPECT_DEATH(Lease(chunk(), offset, size), "check failed") << offset << "+" << size;
    EXPECT_DEATH(View(chunk(), offset, size), "check failed") << offset << "+" << size;
  }
  EXPECT_DEATH(Lease(ChunkRef(), 0, 1), "check failed");
  EXPECT_DEATH(View(ChunkRef(), 0, 1), "check failed");
  EXPECT_DEATH(Lease::of_range(nullptr, 0, 0), "check failed");
}

TEST_F(SharingByTypeDeathTest, ChunkSizeIsChecked) {
  EXPECT_DEATH(static_cast<void>(Lease::allocate(pool_, kMaxChunkBytes + 1)), "check failed");
  EXPECT_DEATH(static_cast<void>(Lease::allocate(pool_, kMaxChunkBytes, 1)), "check failed");
  EXPECT_DEATH(static_cast<void>(Lease::allocate(pool_, SIZE_MAX, 2)), "check failed");
  Buffer buffer;
  EXPECT_DEATH(static_cast<void>(buffer.prepend_copy(pool_, {}, kMaxChunkBytes)), "check failed");
}

}  // namespace
}  // namespace sluice
