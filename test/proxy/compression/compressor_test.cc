// The streams of each compression library, decoded by the library's own decoder, for any cut of the input and any
// output room; and their memory.
#include "proxy/compression/compressor.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "sluice/buffer.h"
#include "sluice/chunk_pool.h"
#include "test/proxy/compression/decoders.h"
#include "test/proxy/http/h2/allocations.h"

namespace sluice {
namespace {

using test::decode;
using test::Decoded;

std::string prose(size_t bytes) {
  std::mt19937 random(7);
  static constexpr std::string_view kWords[] = {"the ",     "client ", "of ", "a ", "proxy ",
                                                "{\"id\":", "},\n",    "0",   "42 "};
  std::string text;
  while (text.size() < bytes) text += kWords[random() % std::size(kWords)];
  text.resize(bytes);
  return text;
}

std::string noise(size_t bytes) {
  std::mt19937 random(11);
  std::string text(bytes, '\0');
  std::generate(text.begin(), text.end(), [&] { return static_cast<char>(random()); });
  return text;
}

class CompressorTest : public testing::TestWithParam<ContentCoding> {
 protected:
  Buffer buffer(std::string_view text) {
    Buffer buffer;
    EXPECT_TRUE(buffer.append_copy(pool_, text));
    return buffer;
  }

  // Cuts `text` into pieces by turns of `cuts`, each with what `then` returns for its index.
  template <class ThenOf>
  Buffer compress(std::string_view text, const std::vector<size_t>& cuts, ThenOf then_of) {
    Buffer out;
    for (size_t i = 0; !text.empty(); ++i) {
      const size_t bytes = std::min(cuts[i % cuts.size()], text.size());
      EXPECT_TRUE(compressor_->compress(pool_, buffer(text.substr(0, bytes)), then_of(i), out));
      text.remove_prefix(bytes);
    }
    EXPECT_TRUE(compressor_->compress(pool_, Buffer(), Compressor::Then::kEnd, out));
    return out;
  }

  ChunkPool pool_{{.budget_bytes = size_t{64} << 20}};
  ChunkPool::Use use_{&pool_};
  const std::unique_ptr<Compressor> compressor_ = make_compressor(GetParam());
};

INSTANTIATE_TEST_SUITE_P(All, CompressorTest,
                         testing::Values(ContentCoding::kGzip, ContentCoding::kBrotli, ContentCoding::kZstd),
                         [](const auto& each) { return std::string(content_coding_name(each.param)); });

TEST_P(CompressorTest, DecodesWithAnyCuts) {
  const std::vector<std::vector<size_t>> all_cuts = {{1}, {7, 1000}, {4096}, {100'000}, {300'000}};
  for (const std::string& text : {std::string(), std::string("x"), prose(3000), prose(200'000), noise(200'000)}) {
    for (const std::vector<size_t>& cuts : all_cuts) {
      if (text.size() > 10'000 && cuts[0] == 1) continue;
      for (const uint32_t every : {0U, 1U, 3U}) {
        ASSERT_TRUE(compressor_->begin(5));
        const Buffer out = compress(text, cuts, [&](size_t i) {
          return every > 0 && i % every == 0 ? Compressor::Then::kFlush : Compressor::Then::kMore;
        });
        const Decoded decoded = decode(GetParam(), out.to_string());
        EXPECT_TRUE(decoded.ended);
        ASSERT_EQ(decoded.text, text) << text.size() << " by " << cuts[0] << ", flushed every " << every;
      }
    }
  }
}

TEST_P(CompressorTest, EndWithTheLastBytes) {
  const std::string text = prose(50'000);
  ASSERT_TRUE(compressor_->begin(1));
  Buffer out;
  ASSERT_TRUE(compressor_->compress(pool_, buffer(text), Compressor::Then::kEnd, out));
  EXPECT_LT(out.size(), text.size() / 3);
  const Decoded decoded = decode(GetParam(), out.to_string());
  EXPECT_TRUE(decoded.ended);
  EXPECT_EQ(decoded.text, text);
}

TEST_P(CompressorTest, FlushReturnsAllInput) {
  ASSERT_TRUE(compressor_->begin(5));
  Buffer out;
  std::string text;
  for (int i = 0; i < 50; ++i) {
    const std::string event = "data: " + std::to_string(i) + "\n\n";
    text += event;
    const size_t before = out.size();
    ASSERT_TRUE(compressor_->compress(pool_, buffer(event), Compressor::Then::kFlush, out));
    EXPECT_GT(out.size(), before);
    const Decoded decoded = decode(GetParam(), out.to_string());
    EXPECT_FALSE(decoded.ended);
    ASSERT_EQ(decoded.text, text);
    // Nothing more to flush, or next to nothing.
    ASSERT_TRUE(compressor_->compress(pool_, Buffer(), Compressor::Then::kFlush, out));
  }
}

TEST_P(CompressorTest, AbandonedStreamIsForgotten) {
  const std::string text = prose(100'000);
  for (const uint32_t level : {9U, 1U, 5U}) {
    ASSERT_TRUE(compressor_->begin(level));
    Buffer lost;
    ASSERT_TRUE(compressor_->compress(pool_, buffer(noise(70'000)), Compressor::Then::kMore, lost));
    ASSERT_TRUE(compressor_->begin(level));
    Buffer out;
    ASSERT_TRUE(compressor_->compress(pool_, buffer(text), Compressor::Then::kEnd, out));
    EXPECT_EQ(decode(GetParam(), out.to_string()).text, text);
  }
}

// Compression continues when the pool has no memory: its output is not much more than the memory that it returns.
TEST_P(CompressorTest, ContinuesBeyondTheBudget) {
  const std::string text = noise(60'000);
  Buffer in = buffer(text);
  std::vector<ChunkRef> all;
  while (Chunk* const chunk = pool_.get(64)) all.push_back(ChunkRef::take(chunk));
  ASSERT_TRUE(compressor_->begin(5));
  Buffer out;
  ASSERT_TRUE(compressor_->compress(pool_, std::move(in), Compressor::Then::kEnd, out));
  EXPECT_EQ(decode(GetParam(), out.to_string()).text, text);
  EXPECT_LT(out.size(), text.size() + 1000);
}

size_t bound_of(ContentCoding coding) {
  return coding == ContentCoding::kGzip     ? kGzipMemoryBytes
         : coding == ContentCoding::kBrotli ? kBrotliMemoryBytes
                                            : kZstdMemoryBytes;
}

TEST_P(CompressorTest, MemoryIsBoundedAtAnyLevel) {
  const std::string text = prose(1 << 20) + noise(1 << 20);
  for (uint32_t level = 1; level <= 9; ++level) {
    const std::unique_ptr<Compressor> compressor = make_compressor(GetParam());
    ASSERT_TRUE(compressor->begin(level));
    Buffer out;
    for (size_t at = 0; at < text.size(); at += 50'000) {
      ASSERT_TRUE(compressor->compress(pool_, buffer(std::string_view(text).substr(at, 50'000)),
                                       at % 3 == 0 ? Compressor::Then::kFlush : Compressor::Then::kMore, out));
      out.clear();
    }
    EXPECT_LE(compressor->memory_bytes(), bound_of(GetParam())) << "level " << level;
    EXPECT_GT(compressor->memory_bytes(), bound_of(GetParam()) / 10);
  }
}

TEST_P(CompressorTest, FurtherStreamsTakeNoMemory) {
  const std::string text = prose(150'000);
  size_t allocations = 0;
  for (int i = 0; i < 5; ++i) {
    Buffer in = buffer(text), out;
    const size_t before = test::allocations.load();
    ASSERT_TRUE(compressor_->begin(5));
    ASSERT_TRUE(compressor_->compress(pool_, std::move(in), Compressor::Then::kFlush, out));
    ASSERT_TRUE(compressor_->compress(pool_, Buffer(), Compressor::Then::kEnd, out));
    allocations = test::allocations.load() - before;
  }
  EXPECT_EQ(allocations, 0U);
}

}  // namespace
}  // namespace sluice
