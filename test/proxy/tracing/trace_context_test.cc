#include "proxy/tracing/trace_context.h"

#include <gtest/gtest.h>

#include <string>

namespace sluice {
namespace {

constexpr std::string_view kExample = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

std::string round_trip(std::string_view text) {
  const std::optional<TraceParent> parsed = TraceParent::parse(text);
  if (!parsed) return "none";
  const TraceParent::Text written = parsed->text();
  return {written.data(), written.size()};
}

TEST(TraceParent, Example) {
  const std::optional<TraceParent> parsed = TraceParent::parse(kExample);
  ASSERT_TRUE(parsed);
  EXPECT_EQ(std::string_view(parsed->trace_id.data(), 32), "0af7651916cd43dd8448eb211c80319c");
  EXPECT_EQ(std::string_view(parsed->parent_id.data(), 16), "b7ad6b7169203331");
  EXPECT_TRUE(parsed->sampled);
  EXPECT_EQ(round_trip(kExample), kExample);
}

TEST(TraceParent, UnknownFlagsAreNotForwarded) {
  const std::string head(kExample.substr(0, 53));
  EXPECT_EQ(round_trip(head + "00"), head + "00");
  EXPECT_EQ(round_trip(head + "02"), head + "00");
  EXPECT_EQ(round_trip(head + "ff"), head + "01");
  EXPECT_EQ(round_trip(head + "0b"), head + "01");
}

TEST(TraceParent, LaterVersions) {
  const std::string rest(kExample.substr(2));
  EXPECT_EQ(round_trip("01" + rest), kExample);
  EXPECT_EQ(round_trip("cc" + rest + "-what-the-future-brings"), kExample);
  EXPECT_EQ(round_trip("cc" + rest + "-"), kExample);
  EXPECT_EQ(round_trip("cc" + rest + ".what"), "none");
  EXPECT_EQ(round_trip("ff" + rest), "none");
}

// Each position of the example, and its length.
TEST(TraceParent, Malformed) {
  EXPECT_EQ(round_trip(""), "none");
  for (size_t size = 0; size < kExample.size(); ++size) EXPECT_EQ(round_trip(kExample.substr(0, size)), "none") << size;
  EXPECT_EQ(round_trip(std::string(kExample) + "-"), "none");
  EXPECT_EQ(round_trip(std::string(kExample) + "0"), "none");
  EXPECT_EQ(round_trip(" " + std::string(kExample)), "none");
  for (size_t i = 0; i < kExample.size(); ++i) {
    for (const char c : {'g', 'A', ' ', '_', '\0', '\xff'}) {
      std::string text(kExample);
      text[i] = c;
      EXPECT_EQ(round_trip(text), "none") << i << " " << int{c};
    }
  }
  EXPECT_EQ(round_trip("00-00000000000000000000000000000000-b7ad6b7169203331-01"), "none");
  EXPECT_EQ(round_trip("00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01"), "none");
}

}  // namespace
}  // namespace sluice
