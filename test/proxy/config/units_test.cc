#include "proxy/config/model/units.h"

#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <utility>
#include <vector>

namespace sluice::config {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;

TEST(Units, DurationsUseTheLargestUnitThatDivides) {
  struct Case {
    std::string text;
    Duration value;
    std::string printed;
  };
  const std::vector<Case> cases = {
      {"0", Duration{0}, "0"},          {"0s", Duration{0}, "0"},      {"250ms", milliseconds(250), "250ms"},
      {"5s", seconds(5), "5s"},         {"60s", minutes(1), "1m"},     {"1m", minutes(1), "1m"},
      {"90m", minutes(90), "90m"},      {"2h", hours(2), "2h"},        {"1500ms", milliseconds(1500), "1500ms"},
      {"8760h", kMaxDuration, "8760h"}, {"3600000ms", hours(1), "1h"},
  };
  for (const Case& c : cases) {
    const absl::StatusOr<Duration> parsed = parse_duration(c.text);
    ASSERT_TRUE(parsed.ok()) << c.text << ": " << parsed.status();
    EXPECT_EQ(*parsed, c.value) << c.text;
    EXPECT_EQ(print_duration(*parsed), c.printed);
  }
}

TEST(Units, DurationErrorsNameWhatIsExpected) {
  const std::string expected = "expected a duration such as 250ms, 5s, 1m or 2h, got ";
  const std::string units = "; the units are ms, s, m and h, after a whole number";
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"", "\"\""},
      {"5", "\"5\"; add its unit, as in 5s"},
      {"s", "\"s\""},
      {"-5s", "\"-5s\""},
      {"+5s", "\"+5s\""},
      {" 5s", "\" 5s\""},
      {"5 s", "\"5 s\"" + units},
      {"1.5s", "\"1.5s\"" + units},
      {"5S", "\"5S\"" + units},
      {"1h30m", "\"1h30m\"" + units},
      {"1d", "\"1d\"" + units},
      {"8761h", "\"8761h\"; the most is 8760h"},
      {"18446744073709551615ms", "\"18446744073709551615ms\"; the most is 8760h"},
      {"18446744073709551616ms", "\"18446744073709551616ms\""},
  };
  for (const auto& [text, message] : cases) {
    EXPECT_EQ(parse_duration(text).status().message(), expected + message) << text;
  }
}

TEST(Units, SizesUseTheLargestUnitThatDivides) {
  struct Case {
    std::string text;
    uint64_t bytes;
    std::string printed;
  };
  const std::vector<Case> cases = {
      {"0", 0, "0"},
      {"1", 1, "1"},
      {"4096", 4096, "4KiB"},
      {"64KiB", 65536, "64KiB"},
      {"1024KiB", kMiB, "1MiB"},
      {"4MiB", 4 * kMiB, "4MiB"},
      {"1GiB", kGiB, "1GiB"},
      {"64KB", 64000, "64000"},
      {"4MB", 4000000, "4000000"},
      {"1GB", 1000000000, "1000000000"},
      {"18446744073709551615", UINT64_MAX, "18446744073709551615"},
      {"17179869183GiB", 17179869183 * kGiB, "17179869183GiB"},
  };
  for (const Case& c : cases) {
    const absl::StatusOr<Size> parsed = parse_size(c.text);
    ASSERT_TRUE(parsed.ok()) << c.text << ": " << parsed.status();
    EXPECT_EQ(parsed->bytes, c.bytes) << c.text;
    EXPECT_EQ(print_size(*parsed), c.printed);
  }
}

TEST(Units, SizeErrorsNameWhatIsExpected) {
  const std::string expected = "expected a size such as 64KiB, 4MiB or 1GiB, got ";
  const std::string units = "; the units are KiB, MiB, GiB, KB, MB and GB, after a whole number";
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"", "\"\""},
      {"KiB", "\"KiB\""},
      {"-1", "\"-1\""},
      {"64k", "\"64k\"" + units},
      {"64kib", "\"64kib\"" + units},
      {"1.5MiB", "\"1.5MiB\"" + units},
      {"17179869184GiB", "\"17179869184GiB\"; that is more than 64 bits hold"},
      {"18446744073709551616", "\"18446744073709551616\""},
  };
  for (const auto& [text, message] : cases) {
    EXPECT_EQ(parse_size(text).status().message(), expected + message) << text;
  }
}

TEST(Units, CountsAreWholeNumbersBelowTwoToThe32) {
  EXPECT_EQ(*parse_count("0"), 0U);
  EXPECT_EQ(*parse_count("4294967295"), 4294967295U);
  EXPECT_EQ(parse_count("4294967296").status().message(),
            "expected a whole number, got \"4294967296\"; the most is 4294967295");
  for (const std::string text : {"", "-1", "+1", "1 ", "0x10", "1k", "1e3", "18446744073709551616"}) {
    EXPECT_EQ(parse_count(text).status().message(), "expected a whole number, got \"" + text + "\"");
  }
}

}  // namespace
}  // namespace sluice::config
