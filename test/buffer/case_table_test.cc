// Each operation by name, with the texts before and after; and each case with four layouts of the bytes, which must
// make no difference.

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sluice/appender.h"
#include "sluice/cursor.h"
#include "test/buffer/pool_fixture.h"

namespace sluice {
namespace {

using test::text_of;

// Text without equal parts.
std::string long_text(size_t size) {
  std::string text;
  for (size_t i = 0; text.size() < size; ++i) text += std::to_string(i) + ' ';
  text.resize(size);
  return text;
}

std::span<const std::byte> bytes_of(std::string_view text) { return std::as_bytes(std::span(text)); }

// Overwrites a whole range, all of which must be writable.
void fill(Buffer& buffer, size_t offset, size_t count, char letter) {
  std::array<Buffer::InOut, 256> pieces;
  const size_t filled = buffer.fill_in_place(offset, count, pieces);
  ASSERT_GT(filled, 0u);
  for (size_t i = 0; i < filled; ++i) std::memset(pieces[i].out, letter, pieces[i].bytes);
}

struct Case {
  const char* name;
  std::string before;
  std::function<void(Buffer&, ChunkPool&)> change;
  std::string after;
};

const std::string kHello = "hello world";
const std::string kBlock = long_text(64);  // As long as the smallest chunk.
const std::string kPage = long_text(4096);
const std::string kLarge = long_text(3 * kMaxChunkBytes + 100);

Lease lease_on(ChunkPool& pool, std::string_view text, size_t headroom = 0) {
  return test::filled(Lease::allocate(pool, text.size(), headroom), text);
}
bool append(Buffer& buffer, ChunkPool& pool, std::string_view text) { return buffer.append_copy(pool, bytes_of(text)); }
bool prepend(Buffer& buffer, ChunkPool& pool, std::string_view text) {
  return buffer.prepend_copy(pool, bytes_of(text));
}

const std::vector<Case>& cases() {
  static const std::vector<Case> table = {
      {"nothing", kHello, [](Buffer&, ChunkPool&) {}, kHello},
      // append_copy
      {"append nothing", kHello, [](Buffer& b, ChunkPool& p) { ASSERT_TRUE(append(b, p, "")); }, kHello},
      {"append to nothing", "", [](Buffer& b, ChunkPool& p) { ASSERT_TRUE(append(b, p, kHello)); }, kHello},
      {"append under the tail", kHello, [](Buffer& b, ChunkPool& p) { ASSERT_TRUE(append(b, p, "!")); }, kHello + "!"},
      {"append exactly the tail", kHello,
       [](Buffer& b, ChunkPool& p) { ASSERT_TRUE(append(b, p, kBlock.substr(0, 64 - 11))); },
       kHello + kBlock.substr(0, 64 - 11)},
      {"append over the tail", kHello, [](Buffer& b, ChunkPool& p) { ASSERT_TRUE(append(b, p, kPage)); },
       kHello + kPage},
      {"append large", kHello, [](Buffer& b, ChunkPool& p) { ASSERT_TRUE(append(b, p, kLarge)); }, kHello + kLarge},
      {"append many times", "",
       [](Buffer& b, ChunkPool& p) {
         for (const char c : kPage) ASSERT_TRUE(append(b, p, {&c, 1}));
       },
       kPage},
      {"append its own first window", kBlock,
       [](Buffer& b, ChunkPool& p) {
         const std::string first = text_of(b.window(0));
         ASSERT_TRUE(b.append_copy(p, b.window(0)));
         b.truncate(b.size() - first.size());
       },
       kBlock},
      // append
      {"append a lease", kHello, [](Buffer& b, ChunkPool& p) { b.append(lease_on(p, "owned")); }, kHello + "owned"},
      {"append a view", kHello, [](Buffer& b, ChunkPool& p) { b.append(lease_on(p, "view").freeze()); },
       kHello + "view"},
      {"append an empty view", kHello, [](Buffer& b, ChunkPool&) { b.append(View()); }, kHello},
      {"append small packed", kHello,
       [](Buffer& b, ChunkPool& p) { b.append_packed(p, lease_on(p, "packed").freeze()); }, kHello + "packed"},
      {"append large packed", kHello, [](Buffer& b, ChunkPool& p) { b.append_packed(p, lease_on(p, kPage).freeze()); },
       kHello + kPage},
      {"append adopted memory", kHello, [](Buffer& b, ChunkPool&) { b.append(View::adopt("literal", 7, nullptr)); },
       kHello + "literal"},
      {"append a clone of itself", kHello, [](Buffer& b, ChunkPool&) { b.append(b.clone()); }, kHello + kHello},
      {"append what was reserved", kHello,
       [](Buffer& b, ChunkPool& p) {
         Lease room = b.reserve(p, 8);
         std::memcpy(room.data(), "reserved", 8);
         room.truncate(8);
         b.append(std::move(room));
       },
       kHello + "reserved"},
      {"append nothing of what was reserved", kHello,
       [](Buffer& b, ChunkPool& p) {
         Lease room = b.reserve(p, 8);
         std::memset(room.data(), 'x', room.size());
         room.truncate(0);
         b.append(std::move(room));
       },
       kHello},
      {"append typed values", kHello,
       [](Buffer& b, ChunkPool& p) {
         Appender out(b, p);
         out.u32be(0x61626364);
         out.u32le(0x61626364);
       },
       kHello + "abcddcba"},
      // prepend
      {"prepend nothing", kHello, [](Buffer& b, ChunkPool& p) { ASSERT_TRUE(prepend(b, p, "")); }, kHello},
      {"prepend to nothing", "", [](Buffer& b, ChunkPool& p) { ASSERT_TRUE(prepend(b, p, kHello)); }, kHello},
      {"prepend under the headroom", kHello, [](Buffer& b, ChunkPool& p) { ASSERT_TRUE(prepend(b, p, "<")); },
       "<" + kHello},
      {"prepend exactly the headroom", kHello,
       [](Buffer& b, ChunkPool& p) { ASSERT_TRUE(prepend(b, p, kBlock.substr(0, 63))); }, kBlock.substr(0, 63) + kHello},
      {"prepend over the headroom", kHello, [](Buffer& b, ChunkPool& p) { ASSERT_TRUE(prepend(b, p, kBlock)); },
       kBlock + kHello},
      {"prepend twice", kHello,
       [](Buffer& b, ChunkPool& p) {
         ASSERT_TRUE(prepend(b, p, kBlock.substr(32)));
         ASSERT_TRUE(prepend(b, p, kBlock.substr(0, 32)));
       },
       kBlock + kHello},
      {"prepend large", kHello, [](Buffer& b, ChunkPool& p) { ASSERT_TRUE(prepend(b, p, kLarge)); }, kLarge + kHello},
      {"prepend a lease", kHello, [](Buffer& b, ChunkPool& p) { b.prepend(lease_on(p, "owned", 63)); },
       "owned" + kHello},
      {"prepend a view", kHello, [](Buffer& b, ChunkPool& p) { b.prepend(lease_on(p, "view").freeze()); },
       "view" + kHello},
      // trim_front, truncate
      {"trim nothing", kHello, [](Buffer& b, ChunkPool&) { b.trim_front(0); }, kHello},
      {"trim part", kHello, [](Buffer& b, ChunkPool&) { b.trim_front(6); }, "world"},
      {"trim everything", kHello, [](Buffer& b, ChunkPool&) { b.trim_front(b.size()); }, ""},
      {"trim and prepend again", kHello,
       [](Buffer& b, ChunkPool& p) {
         b.trim_front(6);
         ASSERT_TRUE(prepend(b, p, "HELLO "));
       },
       "HELLO world"},
      {"truncate nothing", kHello, [](Buffer& b, ChunkPool&) { b.truncate(b.size()); }, kHello},
      {"truncate part", kHello, [](Buffer& b, ChunkPool&) { b.truncate(5); }, "hello"},
      {"truncate everything", kHello, [](Buffer& b, ChunkPool&) { b.truncate(0); }, ""},
      {"truncate and append again", kHello,
       [](Buffer& b, ChunkPool& p) {
         b.truncate(6);
         ASSERT_TRUE(append(b, p, "WORLD"));
       },
       "hello WORLD"},
      {"trim and truncate to the middle", kLarge,
       [](Buffer& b, ChunkPool&) {
         b.trim_front(70'000);
         b.truncate(70'000);
       },
       kLarge.substr(70'000, 70'000)},
      {"clear and use again", kHello,
       [](Buffer& b, ChunkPool& p) {
         b.clear();
         ASSERT_TRUE(append(b, p, "again"));
       },
       "again"},
      // grow
      {"grow by nothing", kHello, [](Buffer& b, ChunkPool& p) { ASSERT_TRUE(b.grow(p, 0)); }, kHello},
      {"grow from nothing", "", [](Buffer& b, ChunkPool& p) { ASSERT_TRUE(b.grow(p, 3)); }, std::string(3, '\0')},
      {"grow under the tail", kHello, [](Buffer& b, ChunkPool& p) { ASSERT_TRUE(b.grow(p, 3)); },
       kHello + std::string(3, '\0')},
      {"grow over the tail", kHello, [](Buffer& b, ChunkPool& p) { ASSERT_TRUE(b.grow(p, 5000, std::byte{'x'})); },
       kHello + std::string(5000, 'x')},
      {"truncate and grow with zeros", kHello,
       [](Buffer& b, ChunkPool& p) {
         b.truncate(5);
         ASSERT_TRUE(b.grow(p, 6));
       },
       "hello" + std::string(6, '\0')},
      // clone
      {"a clone is changed", kHello,
       [](Buffer& b, ChunkPool& p) {
         Buffer clone = b.clone();
         clone.trim_front(1);
         ASSERT_TRUE(append(clone, p, "!"));
         ASSERT_TRUE(clone.write_at(p, 0, bytes_of("EL")));
         EXPECT_EQ(text_of(clone), "ELlo world!");
       },
       kHello},
      {"a clone stays", kHello,
       [](Buffer& b, ChunkPool& p) {
         const Buffer clone = b.clone();
         ASSERT_TRUE(b.write_at(p, 0, bytes_of("HELLO")));
         b.truncate(8);
         EXPECT_EQ(text_of(clone), kHello);
       },
       "HELLO wo"},
      {"a clone of a part", kHello, [](Buffer& b, ChunkPool&) { b = b.clone(3, 5); }, "lo wo"},
      {"a clone of a clone", kHello,
       [](Buffer& b, ChunkPool&) {
         Buffer clone = b.clone();
         Buffer second = clone.clone();
         clone.clear();
         b = std::move(second);
       },
       kHello},
      {"a deep clone", kLarge, [](Buffer& b, ChunkPool& p) { b = *b.deep_clone(p); }, kLarge},
      // split and merge
      {"split and put together", kHello,
       [](Buffer& b, ChunkPool&) {
         Buffer front = b.split_front(4);
         front.append(std::move(b));
         b = std::move(front);
       },
       kHello},
      {"split and exchanged", kHello,
       [](Buffer& b, ChunkPool&) {
         Buffer front = b.split_front(6);
         b.append(std::move(front));
       },
       "worldhello "},
      {"split byte by byte", kBlock,
       [](Buffer& b, ChunkPool&) {
         Buffer all;
         while (!b.empty()) all.append(b.split_front(1));
         b = std::move(all);
       },
       kBlock},
      {"merge nothing", kHello, [](Buffer& b, ChunkPool&) { b.append(Buffer()); }, kHello},
      {"merge into nothing", kHello,
       [](Buffer& b, ChunkPool&) {
         Buffer empty;
         empty.append(std::move(b));
         b = std::move(empty);
       },
       kHello},
      {"merge large", kHello,
       [](Buffer& b, ChunkPool& p) {
         b.append(test::buffer_of(p, kLarge, test::splits_every(1000, kLarge.size())));
       },
       kHello + kLarge},
      {"merge large at the front", kHello,
       [](Buffer& b, ChunkPool& p) {
         b.prepend(test::buffer_of(p, kLarge, test::splits_every(1000, kLarge.size())));
       },
       kLarge + kHello},
      // writing
      {"write at the start", kHello, [](Buffer& b, ChunkPool& p) { ASSERT_TRUE(b.write_at(p, 0, bytes_of("J"))); },
       "Jello world"},
      {"write in the middle", kHello, [](Buffer& b, ChunkPool& p) { ASSERT_TRUE(b.write_at(p, 4, bytes_of("0-W"))); },
       "hell0-World"},
      {"write at the end", kHello, [](Buffer& b, ChunkPool& p) { ASSERT_TRUE(b.write_at(p, 8, bytes_of("ds!"))); },
       "hello wods!"},
      {"write nothing behind the end", kHello,
       [](Buffer& b, ChunkPool& p) { ASSERT_TRUE(b.write_at(p, b.size(), {})); }, kHello},
      {"make writable and write", kHello,
       [](Buffer& b, ChunkPool& p) {
         ASSERT_TRUE(b.make_writable(p, 2, 6));
         fill(b, 2, 6, 'x');
       },
       "hexxxxxxrld"},
      {"pull up everything", kPage,
       [](Buffer& b, ChunkPool& p) { EXPECT_EQ(text_of(b.pull_up(p, 0, kPage.size())), kPage); }, kPage},
      {"pull up the middle", kPage,
       [](Buffer& b, ChunkPool& p) { EXPECT_EQ(text_of(b.pull_up(p, 1000, 500)), kPage.substr(1000, 500)); }, kPage},
      {"pull up and write", kHello,
       [](Buffer& b, ChunkPool& p) {
         b.pull_up(p, 0, 11);
         ASSERT_TRUE(b.write_at(p, 5, bytes_of("_")));
       },
       "hello_world"},
      {"compact leftovers", kPage,
       [](Buffer& b, ChunkPool& p) {
         b.trim_front(4090);
         b.compact(p);
       },
       kPage.substr(4090)},
      // reading, which changes nothing
      {"read at offsets", kPage,
       [](Buffer& b, ChunkPool&) {
         for (const size_t offset : {0u, 1u, 63u, 64u, 4000u, 4095u, 4096u, 5000u}) {
           std::string to(100, 0);
           to.resize(b.copy_out(offset, std::as_writable_bytes(std::span(to))));
           EXPECT_EQ(to, offset < kPage.size() ? kPage.substr(offset, 100) : "");
         }
       },
       kPage},
      {"fetch at offsets", kPage,
       [](Buffer& b, ChunkPool&) {
         std::array<std::byte, 100> scratch;
         for (const size_t offset : {0u, 1u, 63u, 64u, 3996u}) {
           EXPECT_EQ(text_of(b.fetch(offset, 100, scratch)), kPage.substr(offset, 100));
         }
       },
       kPage},
      {"find and compare", kPage,
       [](Buffer& b, ChunkPool&) {
         EXPECT_EQ(b.find("1000 "), kPage.find("1000 "));
         EXPECT_EQ(b.find(std::byte{'9'}, 100), kPage.find('9', 100));
         EXPECT_TRUE(b.starts_with("0 1 2 3 4 5 6 7 8 9 10"));
         EXPECT_TRUE(b == kPage);
         EXPECT_TRUE(b == b.clone());
       },
       kPage},
      {"read by a cursor", kHello,
       [](Buffer& b, ChunkPool&) {
         Cursor cursor(b, 3);
         EXPECT_EQ(cursor.u32be(), 0x6c6f2077u);
         EXPECT_EQ(cursor.u32le(), 0x646c726fu);
         EXPECT_EQ(cursor.remaining(), 0u);
       },
       kHello},
  };
  return table;
}

class CaseTableTest : public test::PoolTest {
 protected:
  CaseTableTest() : PoolTest(size_t{32} << 20) {}

  // Chunks that are full except for `headroom` bytes before the first one's data.
  Buffer with_headroom(std::string_view text, size_t headroom) {
    Buffer buffer;
    EXPECT_TRUE(buffer.prepend_copy(pool_, bytes_of(text), headroom));
    EXPECT_TRUE(buffer.empty() || buffer.headroom() >= headroom);
    return buffer;
  }
  // Runs all cases on what `lay_out` makes of their texts.
  template <typename LayOut>
  void run(LayOut lay_out) {
    for (const Case& c : cases()) {
      SCOPED_TRACE(c.name);
      Buffer buffer = lay_out(c.before);
      ASSERT_TRUE(buffer == c.before);
      c.change(buffer, pool_);
      ASSERT_EQ(buffer.size(), c.after.size());
      ASSERT_EQ(buffer.empty(), c.after.empty());
      ASSERT_TRUE(text_of(buffer) == c.after);
      ASSERT_TRUE(clone_.empty() || clone_ == c.before);
    }
  }

  Buffer clone_;
};

TEST_F(CaseTableTest, NamesAreDifferent) {
  for (const Case& a : cases()) {
    for (const Case& b : cases()) ASSERT_EQ(&a == &b, std::string_view(a.name) == b.name) << a.name;
  }
}

TEST_F(CaseTableTest, OneWindow) {
  run([this](std::string_view text) {
    Buffer buffer;
    EXPECT_TRUE(append(buffer, pool_, text));
    return buffer;
  });
}

TEST_F(CaseTableTest, ManySmallWindows) {
  run([this](std::string_view text) {
    const size_t piece = text.size() < 10'000 ? 3 : 1000;
    return test::buffer_of(pool_, text, test::splits_every(piece, text.size()));
  });
}

TEST_F(CaseTableTest, SixtyThreeBytesOfHeadroom) {
  run([this](std::string_view text) { return with_headroom(text, 63); });
}

TEST_F(CaseTableTest, SharedWithAClone) {
  run([this](std::string_view text) {
    Buffer buffer = with_headroom(text, 63);
    clone_ = buffer.clone();
    return buffer;
  });
  clone_.clear();
}

}  // namespace
}  // namespace sluice
