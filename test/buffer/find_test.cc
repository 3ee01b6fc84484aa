// Searches across window boundaries, compared with std::string's.

#include <gtest/gtest.h>

#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "test/buffer/pool_fixture.h"

namespace sluice {
namespace {

class FindTest : public test::PoolTest {
 protected:
  // All searches for `text` in `buffer`, which must return the same as in the string `all`.
  static void expect_same(const Buffer& buffer, const std::string& all, std::string_view text) {
    for (size_t from = 0; from <= all.size() + 2; ++from) {
      ASSERT_EQ(buffer.find(text, from), all.find(text, from)) << "'" << text << "' in '" << all << "' from " << from;
    }
    ASSERT_EQ(buffer.starts_with(text), all.starts_with(text)) << "'" << text << "' in '" << all << "'";
  }
  Buffer cut(const std::string& all, size_t piece) {
    return test::buffer_of(pool_, all, test::splits_every(piece, all.size()));
  }
};

TEST_F(FindTest, ByteInEveryWindow) {
  const std::string all = "abcabcabcd";
  for (size_t piece = 1; piece <= all.size(); ++piece) {
    const Buffer buffer = cut(all, piece);
    for (const char c : std::string("abcdx")) {
      for (size_t from = 0; from <= all.size() + 2; ++from) {
        EXPECT_EQ(buffer.find(static_cast<std::byte>(c), from), all.find(c, from));
      }
    }
  }
  EXPECT_EQ(copied(), 0u);
}

TEST_F(FindTest, ByteOfAnyValue) {
  std::string all(256, 0);
  for (size_t i = 0; i < 256; ++i) all[i] = static_cast<char>(i);
  const Buffer buffer = cut(all, 7);
  for (size_t i = 0; i < 256; ++i) EXPECT_EQ(buffer.find(static_cast<std::byte>(i)), i);
}

TEST_F(FindTest, TextAcrossWindows) {
  const std::string all = "GET / HTTP/1.1\r\nhost: a\r\n\r\nbody";
  for (size_t piece = 1; piece <= all.size(); ++piece) {
    const Buffer buffer = cut(all, piece);
    for (const std::string_view text : {"\r\n\r\n", "\r\n", "GET", "body", "host: a\r\n\r", "bodyx", "", "G", "\n\n"}) {
      expect_same(buffer, all, text);
    }
    expect_same(buffer, all, all);
    expect_same(buffer, all, all + "x");
  }
}

// A candidate that fails must not hide the one that begins inside it.
TEST_F(FindTest, OverlappingCandidates) {
  for (const std::string all : {"aaaaab", "\r\r\n\r\r\n\r\n", "abababac", "aabaabaaab", "\r\n\r\r\n\r\n"}) {
    for (size_t piece = 1; piece <= all.size(); ++piece) {
      const Buffer buffer = cut(all, piece);
      for (const std::string_view text : {"aab", "aaaab", "\r\n\r\n", "ababac", "aabaaab", "aaab", "aa"}) {
        expect_same(buffer, all, text);
      }
    }
  }
}

TEST_F(FindTest, InEmpty) {
  const Buffer buffer{};
  EXPECT_EQ(buffer.find(std::byte{0}), Buffer::npos);
  EXPECT_EQ(buffer.find("a"), Buffer::npos);
  EXPECT_EQ(buffer.find(""), 0u);
  EXPECT_EQ(buffer.find("", 1), Buffer::npos);
  EXPECT_TRUE(buffer.starts_with(""));
  EXPECT_FALSE(buffer.starts_with("a"));
}

TEST_F(FindTest, FromBeyondTheEnd) {
  const Buffer buffer = cut("abc", 1);
  EXPECT_EQ(buffer.find(std::byte{'a'}, Buffer::npos), Buffer::npos);
  EXPECT_EQ(buffer.find("a", Buffer::npos), Buffer::npos);
  EXPECT_EQ(buffer.find("", Buffer::npos), Buffer::npos);
}

TEST_F(FindTest, RandomTextsOfTwoLetters) {
  std::mt19937 random(1);
  const auto letters = [&random](size_t size) {
    std::string text(size, 'a');
    for (char& c : text) c = static_cast<char>('a' + random() % 2);
    return text;
  };
  for (int round = 0; round < 2000; ++round) {
    const std::string all = letters(random() % 40);
    expect_same(cut(all, 1 + random() % 12), all, letters(random() % 8));
  }
}

TEST_F(FindTest, SplitsUntilADelimiter) {
  const std::string all = "one\r\n\r\ntwo\rthree\r\nrest\r";
  for (size_t piece = 1; piece <= all.size(); ++piece) {
    Buffer buffer = cut(all, piece);
    std::vector<std::string> lines;
    while (const std::optional<Buffer> line = buffer.split_until("\r\n")) lines.push_back(test::text_of(*line));
    EXPECT_EQ(lines, (std::vector<std::string>{"one", "", "two\rthree"}));
    EXPECT_EQ(test::text_of(buffer), "rest\r") << "what has no delimiter stays";
  }
  EXPECT_EQ(copied(), 0u);
}

TEST_F(FindTest, SplitsOnAsBytesArrive) {
  const std::string all = "GET / HTTP/1.1\r\nHost: a\r\n\r\nbody";
  Buffer buffer;
  size_t searched = 0;
  for (size_t i = 0;; ++i) {
    ASSERT_LT(i, all.size());
    ASSERT_TRUE(append_copy(buffer, all.substr(i, 1)));
    if (const std::optional<Buffer> head = buffer.split_until("\r\n\r\n", searched)) {
      EXPECT_EQ(test::text_of(*head), "GET / HTTP/1.1\r\nHost: a");
      EXPECT_TRUE(buffer.empty());
      break;
    }
    searched = buffer.size() < 3 ? 0 : buffer.size() - 3;
  }
}

TEST_F(FindTest, SplitsNothingBeforeFrom) {
  Buffer buffer = cut("a,b,c", 2);
  EXPECT_EQ(test::text_of(*buffer.split_until(",", 2)), "a,b");
  EXPECT_FALSE(buffer.split_until("c", 1));
  EXPECT_FALSE(buffer.split_until("c", 100));
  EXPECT_EQ(test::text_of(*buffer.split_until("c")), "");
  EXPECT_TRUE(buffer.empty());
  EXPECT_DEATH((void)buffer.split_until(""), "check failed");
}

}  // namespace
}  // namespace sluice
