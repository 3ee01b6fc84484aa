#include "proxy/cli/top_screen.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace sluice {
namespace {

using testing::AllOf;
using testing::ContainsRegex;
using testing::HasSubstr;
using testing::Not;

constexpr std::string_view kMemory = R"({"pools": {"budget_bytes": 1048576}})";

std::string metrics_of(int requests, int errors) {
  return absl::StrCat(
      "# HELP sluice_ready 1.\n# TYPE sluice_ready gauge\nsluice_ready 1\nsluice_build_info{version=\"0.1.0\"} 1\n"
      "sluice_config_generation 3\nprocess_start_time_seconds 1000\nsluice_pool_bytes 524288\n"
      "sluice_sessions_active{listener=\"web\"} 7\nsluice_http_requests_total{listener=\"web\"} ",
      requests, "\nsluice_http_requests_ended_total{listener=\"web\",reason=\"ok\"} ", requests,
      "\nsluice_http_requests_ended_total{listener=\"web\",reason=\"no_endpoint\"} ", errors, "\n");
}

std::string address(std::string_view name, std::string_view state, std::string_view reason) {
  return absl::StrCat(R"({"address": ")", name, R"(", "state": ")", state, R"(", "reason": ")", reason,
                      R"(", "active": 2})");
}

std::string upstreams(const std::vector<std::string>& addresses) {
  return absl::StrCat(R"({"upstreams": [{"name": "app", "endpoints": [{"endpoint": "x", "addresses": [)",
                      absl::StrJoin(addresses, ","), "]}]}]}");
}

std::string screen(const TopFigures& before, const TopFigures& now, size_t rows = 100, size_t columns = 200) {
  std::string text;
  for (const TopLine& line : top_screen(before, now, "", rows, columns)) absl::StrAppend(&text, line.text, "\n");
  return text;
}

TEST(MetricsText, SumsSeries) {
  const MetricsText text(
      "# HELP a b\na{x=\"1\",y=\"2\"} 3\na{x=\"2\"} 4.5\nb 1e3\nh_bucket{le=\"1\"} 9\nmalformed\nc{ 1\n");
  EXPECT_EQ(text.total("a"), 7.5);
  EXPECT_EQ(text.total("a", "x", "2"), 4.5);
  EXPECT_EQ(text.total("a", "y", "2"), 3);
  EXPECT_EQ(text.total("b"), 1000);
  EXPECT_EQ(text.total("h_bucket") + text.total("c") + text.total("none"), 0);
  EXPECT_EQ(text.value("a", "x=\"2\""), 4.5);
  EXPECT_EQ(text.value("a", "x=\"3\""), 0);
}

TEST(MetricsText, LabelsHaveEscapes) {
  const std::string_view labels = R"(upstream="a",endpoint="unix:/x\",state=\"\\",state="b")";
  EXPECT_EQ(MetricsText::label(labels, "upstream"), "a");
  EXPECT_EQ(MetricsText::label(labels, "endpoint"), R"(unix:/x",state="\)");
  EXPECT_EQ(MetricsText::label(labels, "state"), "b");
  EXPECT_EQ(MetricsText::label(labels, "none"), "");
  EXPECT_EQ(MetricsText::label("a=\"", "a"), "");
}

TEST(TopScreen, HasRates) {
  const std::string page = upstreams({address("1.2.3.4:80", "up", "")});
  const TopFigures before(metrics_of(100, 0), page, kMemory, 1060), now(metrics_of(300, 10), page, kMemory, 1062);
  const std::string text = screen(before, now);
  EXPECT_THAT(text, HasSubstr("sluice 0.1.0, up 1 min 2 s, configuration 3: ready\n"));
  EXPECT_THAT(text, HasSubstr("requests/s 100.0   failed/s 5.0   connections 7"));
  EXPECT_THAT(text, HasSubstr("buffers 512 KiB of 1.0 MiB (50.0 %)"));
  EXPECT_THAT(text, ContainsRegex("web +7 +0 +100\\.0 "));
  EXPECT_THAT(text, ContainsRegex("no_endpoint +requests +web +5\\.0 +10\n"));
  EXPECT_THAT(text, ContainsRegex("app +1\\.2\\.3\\.4:80 +up +2 "));
}

// After an upgrade the counters begin at zero again.
TEST(TopScreen, RatesAreNotNegative) {
  const TopFigures before(metrics_of(500, 5), "{}", kMemory, 1060), now(metrics_of(3, 0), "{}", kMemory, 1061);
  EXPECT_THAT(screen(before, now), AllOf(HasSubstr("requests/s 0.0   failed/s 0.0"), Not(HasSubstr("-"))));
}

TEST(TopScreen, FitsTheTerminal) {
  std::vector<std::string> addresses;
  for (int i = 0; i < 50; ++i) addresses.push_back(address(absl::StrCat("10.0.0.", i, ":80"), "up", ""));
  addresses.push_back(address("10.0.0.99:80", "down", "connections to it have failed"));
  const TopFigures figures(metrics_of(1, 0), upstreams(addresses), kMemory, 1060);
  for (size_t rows = 0; rows < 70; ++rows) {
    const std::vector<TopLine> lines = top_screen(figures, figures, "no response", rows, 40);
    EXPECT_LE(lines.size(), rows);
    for (const TopLine& line : lines) EXPECT_LE(line.text.size(), 40u);
  }
  const std::vector<TopLine> lines = top_screen(figures, figures, "", 20, 100);
  ASSERT_EQ(lines.size(), 20u);
  EXPECT_THAT(lines.back().text, ContainsRegex("^\\.\\.\\. 4[0-9] more endpoints$"));
  EXPECT_THAT(screen(figures, figures), ContainsRegex("REASON\napp +10\\.0\\.0\\.99:80 +down")) << "first of all";
}

TEST(TopScreen, TextsOfTheProcessCannotControlTheTerminal) {
  const TopFigures figures(metrics_of(1, 0), upstreams({address(R"(a\u001b[2J)", "\xc2\x9b", R"(x\ny\u0007)")}),
                           kMemory, 1060);
  for (const TopLine& line : top_screen(figures, figures, "\x1b[2J", 100, 200)) {
    for (const char c : line.text) EXPECT_TRUE(c >= ' ' && c <= '~') << line.text;
  }
  EXPECT_THAT(screen(figures, figures), AllOf(HasSubstr("a?[2J"), HasSubstr("x?y?")));
}

TEST(TopScreen, LeavesOutUpstreamsThatAreTooLarge) {
  const auto addresses_of = [](size_t upstreams_count, size_t addresses) {
    std::vector<std::string> each(addresses, address("a]}\\\"[{", "up", ""));
    std::string one = upstreams(each);
    one = one.substr(one.find('[') + 1);
    one.resize(one.size() - 2);
    const std::string page =
        absl::StrCat("{\"upstreams\": [", absl::StrJoin(std::vector<std::string>(upstreams_count, one), ","), "]}");
    return TopFigures(metrics_of(1, 0), page, kMemory, 1060);
  };
  const TopFigures many = addresses_of(1000, 10);
  EXPECT_EQ(many.addresses.size(), 10000u);
  EXPECT_EQ(many.addresses.back().address, "a]}\"[{");
  EXPECT_EQ(many.addresses_error, "");
  const TopFigures large = addresses_of(2, 2000);
  EXPECT_THAT(screen(large, large),
              HasSubstr("\n2 upstreams have too many endpoints for this screen: see /upstreams\n"));
  for (const char* page : {"", "[", "[]]", "{]}", "[{\"", "[{\"\\", "no JSON"}) {
    EXPECT_TRUE(TopFigures("", page, page, 0).addresses.empty()) << page;
  }
}

}  // namespace
}  // namespace sluice
