// External memory in leases and views: released once, when nothing refers to it any more, by the last holder.

#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "test/buffer/pool_fixture.h"

namespace sluice {
namespace {

using test::overwrite;
using test::text_of;
using test::windows_of;
using Windows = std::vector<std::string>;

class AdoptTest : public test::PoolTest {
 protected:
  // Which memory was released by whom.
  struct Owner {
    std::string memory;
    std::atomic<int> released = 0;
    std::thread::id thread;
    static void release(void* context, std::byte* data, size_t bytes) {
      Owner& owner = *static_cast<Owner*>(context);
      EXPECT_EQ(data, reinterpret_cast<std::byte*>(owner.memory.data()));
      EXPECT_EQ(bytes, owner.memory.size());
      owner.thread = std::this_thread::get_id();
      ++owner.released;
    }
  };
  static Lease lease_on(Owner& owner) {
    return Lease::adopt(owner.memory.data(), owner.memory.size(), &Owner::release, &owner);
  }
  static View view_on(Owner& owner) {
    return View::adopt(owner.memory.data(), owner.memory.size(), &Owner::release, &owner);
  }
};

TEST_F(AdoptTest, LeaseIsTheCallersMemory) {
  Owner owner{"hello world"};
  {
    Lease lease = lease_on(owner);
    EXPECT_EQ(lease.data(), reinterpret_cast<std::byte*>(owner.memory.data()));
    EXPECT_EQ(lease.size(), 11u);
    EXPECT_EQ(lease.headroom(), 0u);
    EXPECT_EQ(lease.tailroom(), 0u);
    std::memset(lease.data(), 'x', 5);
    EXPECT_EQ(owner.released, 0);
  }
  EXPECT_EQ(owner.released, 1);
  EXPECT_EQ(owner.memory, "xxxxx world");
  EXPECT_EQ(pool_.stats().out_bytes_peak, 0u) << "no chunk of the pool";
}

TEST_F(AdoptTest, ViewIsTheCallersMemory) {
  Owner owner{"hello world"};
  {
    const View view = view_on(owner);
    EXPECT_EQ(view.data(), reinterpret_cast<std::byte*>(owner.memory.data()));
    EXPECT_EQ(text_of(view), "hello world");
  }
  EXPECT_EQ(owner.released, 1);
}

TEST_F(AdoptTest, LiteralNeedsNoRelease) {
  Buffer buffer;
  buffer.append(View::adopt("hello", 5, nullptr));
  buffer.append(View::adopt(" world", 6, nullptr));
  EXPECT_EQ(windows_of(buffer), (Windows{"hello", " world"}));
}

TEST_F(AdoptTest, EmptyMemoryIsReleasedAndDroppedByABuffer) {
  Owner owner{""}, other{""};
  Buffer buffer;
  buffer.append(view_on(owner));
  buffer.prepend(lease_on(other));
  EXPECT_TRUE(buffer.empty());
  EXPECT_EQ(owner.released, 1);
  EXPECT_EQ(other.released, 1);
}

TEST_F(AdoptTest, LastOfManyWindowsAndClonesReleases) {
  Owner owner{"hello world"};
  View view = view_on(owner);
  View clone = view.clone();
  Buffer back;
  back.append(std::move(view));
  Buffer front = back.split_front(5);
  Buffer all = front.clone();
  all.append(back.clone(1, 5));
  EXPECT_EQ(text_of(all), "helloworld");
  clone = View();
  front.clear();
  back.clear();
  all.trim_front(9);
  EXPECT_EQ(owner.released, 0);
  EXPECT_EQ(text_of(all), "d");
  all.clear();
  EXPECT_EQ(owner.released, 1);
}

TEST_F(AdoptTest, ReleaseMayAppendToTheBufferBeingCleared) {
  for (const size_t windows : {1, 3, 4, 40}) {
    SCOPED_TRACE(windows);
    struct Adding {
      Buffer buffer;
      Buffer more;
      size_t released = 0;
      static void release(void* context, std::byte*, size_t) {
        Adding& self = *static_cast<Adding*>(context);
        ++self.released;
        if (self.released % 2 == 1) self.buffer.append(self.more.split_front(1));
      }
    } adding;
    adding.more = buffer_of(std::string(40, 'm'));
    for (size_t i = 0; i < windows; ++i) adding.buffer.append(View::adopt("ab", 2, &Adding::release, &adding));
    adding.buffer.clear();
    EXPECT_EQ(adding.released, windows);
    adding.buffer.clear();
    EXPECT_TRUE(adding.buffer.empty());
    EXPECT_EQ(adding.released, windows);
  }
}

TEST_F(AdoptTest, SplitLeasesReleaseOnce) {
  Owner owner{"hello world"};
  Lease front = lease_on(owner);
  {
    Lease back = front.split_off(6);
    std::memset(back.data(), 'b', back.size());
    const View view = std::move(back).freeze();
    EXPECT_EQ(text_of(view), "bbbbb");
  }
  EXPECT_EQ(owner.released, 0);
  EXPECT_EQ(front.tailroom(), 5u) << "the lease may grow again";
  front = Lease();
  EXPECT_EQ(owner.released, 1);
}

TEST_F(AdoptTest, ReleasedOnTheThreadOfTheLastHolder) {
  Owner owner{"hello world"};
  View view = view_on(owner);
  std::thread::id other;
  std::thread thread([clone = view.clone(), &other]() mutable {
    other = std::this_thread::get_id();
    clone = View();
  });
  thread.join();
  EXPECT_EQ(owner.released, 0);
  view = View();
  EXPECT_EQ(owner.released, 1);
  EXPECT_EQ(owner.thread, std::this_thread::get_id());

  Owner second{"again"};
  Buffer buffer;
  buffer.append(lease_on(second));
  std::thread([moved = std::move(buffer), &other] { other = std::this_thread::get_id(); }).join();
  EXPECT_EQ(second.released, 1);
  EXPECT_EQ(second.thread, other);
}

TEST_F(AdoptTest, AdoptedViewIsNeverWritable) {
  Owner owner{"hello world"};
  Buffer buffer;
  buffer.append(view_on(owner));
  EXPECT_FALSE(overwrite(buffer, 0, 'x'));
  Buffer front = buffer.split_front(5);
  EXPECT_FALSE(overwrite(front, 0, 'x'));
  EXPECT_FALSE(overwrite(buffer, 0, 'x'));
  buffer.clear();
  EXPECT_FALSE(overwrite(front, 0, 'x')) << "not even by its only holder";
  Buffer::InOut piece;
  EXPECT_EQ(front.fill_in_place(0, 1, {&piece, 1}), 0u);
  ASSERT_TRUE(front.write_at(pool_, 0, std::as_bytes(std::span("HE", 2))));
  EXPECT_EQ(windows_of(front), (Windows{"HE", "llo"}));
  EXPECT_EQ(owner.memory, "hello world");
}

TEST_F(AdoptTest, AdoptedViewIsNeverGrown) {
  Owner owner{"hello world"};
  Buffer buffer;
  buffer.append(view_on(owner));
  buffer.trim_front(2);
  buffer.truncate(3);
  EXPECT_EQ(buffer.headroom(), 0u);
  EXPECT_EQ(buffer.tailroom(), 0u);
  ASSERT_TRUE(buffer.append_copy(pool_, "!!"));
  ASSERT_TRUE(buffer.prepend_copy(pool_, std::as_bytes(std::span("??", 2))));
  EXPECT_EQ(windows_of(buffer), (Windows{"??", "llo", "!!"}));
  Buffer second;
  second.append(view_on(owner));
  second.truncate(5);
  ASSERT_TRUE(second.grow(pool_, 6));
  const Lease room = second.reserve(pool_, 1);
  EXPECT_EQ(owner.memory, "hello world");
}

TEST_F(AdoptTest, AdoptedLeaseIsGrownLikeAnyOther) {
  Owner owner{"hello world"};
  Buffer buffer;
  buffer.append(lease_on(owner));
  buffer.truncate(5);
  EXPECT_EQ(buffer.tailroom(), 6u);
  ASSERT_TRUE(append_copy(buffer, " THERE"));
  EXPECT_EQ(windows_of(buffer), Windows{"hello THERE"});
  EXPECT_EQ(owner.memory, "hello THERE");
}

TEST_F(AdoptTest, PinsWhatItHolds) {
  Owner owner{std::string(1000, 'x')};
  Buffer buffer;
  buffer.append(view_on(owner));
  buffer.truncate(10);
  EXPECT_EQ(buffer.pinned_bytes(), 1000u);
  EXPECT_EQ(buffer.pinned().wasted, 990u);
  EXPECT_TRUE(buffer.compact(pool_));
  EXPECT_EQ(owner.released, 1);
  EXPECT_EQ(text_of(buffer), std::string(10, 'x'));
}

}  // namespace
}  // namespace sluice
