#include "proxy/server/exposition.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace sluice {
namespace {

using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;

constexpr auto kPrometheus = MetricsFormat::kPrometheus, kOpenMetrics = MetricsFormat::kOpenMetrics;

TEST(Exposition, GroupsTheSeriesOfAMetric) {
  EXPECT_EQ(exposition("sluice_accepted_total{listener=\"a\"} 1\n"
                       "sluice_sessions_active{listener=\"a\"} 2\n"
                       "sluice_accepted_total{listener=\"b c\"} 3\n"
                       "sluice_unknown 4\n",
                       kPrometheus),
            "# HELP sluice_accepted_total Connections accepted, including those that a limit refused.\n"
            "# TYPE sluice_accepted_total counter\n"
            "sluice_accepted_total{listener=\"a\"} 1\n"
            "sluice_accepted_total{listener=\"b c\"} 3\n"
            "# HELP sluice_sessions_active Open connections.\n"
            "# TYPE sluice_sessions_active gauge\n"
            "sluice_sessions_active{listener=\"a\"} 2\n"
            "# TYPE sluice_unknown gauge\n"
            "sluice_unknown 4\n");
}

TEST(Exposition, OpenMetrics) {
  EXPECT_EQ(exposition("sluice_build_info{version=\"1\"} 1\n"
                       "sluice_received_bytes_total{listener=\"a\"} 1\n"
                       "sluice_pool_bytes 2\n",
                       kOpenMetrics),
            "# HELP sluice_build 1, with the version as a label.\n"
            "# TYPE sluice_build info\n"
            "sluice_build_info{version=\"1\"} 1\n"
            "# HELP sluice_received_bytes Bytes received from clients.\n"
            "# TYPE sluice_received_bytes counter\n"
            "# UNIT sluice_received_bytes bytes\n"
            "sluice_received_bytes_total{listener=\"a\"} 1\n"
            "# HELP sluice_pool_bytes Capacity of the buffers in use.\n"
            "# TYPE sluice_pool_bytes gauge\n"
            "# UNIT sluice_pool_bytes bytes\n"
            "sluice_pool_bytes 2\n");
}

TEST(Exposition, AHistogramIsOneMetric) {
  const std::string lines =
      "sluice_upstream_connect_seconds_bucket{upstream=\"a\",le=\"+Inf\"} 1\n"
      "sluice_upstream_connect_seconds_sum{upstream=\"a\"} 0.001\n"
      "sluice_upstream_connect_seconds_count{upstream=\"a\"} 1\n";
  const std::string head =
      "# HELP sluice_upstream_connect_seconds Making a connection to an endpoint, with its handshake.\n"
      "# TYPE sluice_upstream_connect_seconds histogram\n";
  EXPECT_EQ(exposition(lines, kPrometheus), head + lines);
  EXPECT_EQ(exposition(lines, kOpenMetrics), head + "# UNIT sluice_upstream_connect_seconds seconds\n" + lines);
  // A gauge may be a count.
  EXPECT_EQ(exposition("sluice_x_count 1\n", kPrometheus), "# TYPE sluice_x_count gauge\nsluice_x_count 1\n");
}

TEST(Exposition, FormatByAcceptField) {
  const std::string open = "application/openmetrics-text";
  for (const std::string& accept :
       {open, "text/html, " + open, open + ";version=1.0.0", open + "; version=\"1.0.0\"; charset=utf-8",
        std::string("Application/OpenMetrics-Text;q=0.1,*/*"), open + ";q=0.5,text/plain;q=0.5",
        open + ";version=1.0.0;escaping=allow-utf-8;q=0.5," + open +
            ";version=0.0.1;q=0.4,text/plain;q=0.3,*/*;q=0.2"}) {
    EXPECT_EQ(metrics_format(accept), kOpenMetrics) << accept;
  }
  for (const std::string& accept :
       {std::string(), std::string("*/*"), std::string("text/plain"), open + ";q=0", open + ";q=0.4,text/plain;q=0.5",
        open + ";version=0.0.1", open + ";version=2.0.0", open + ";q=x", open + ";q=nan", open + ";q=2",
        open + ";q=0.9,text/*", std::string(",;=,;q")}) {
    EXPECT_EQ(metrics_format(accept), kPrometheus) << accept;
  }
}

TEST(Exposition, ProcessMetrics) {
  for (const MetricsFormat format : {kPrometheus, kOpenMetrics}) {
    const std::string text = format_process_metrics(format);
    for (const char* name : {"process_cpu_seconds_total", "process_start_time_seconds", "process_resident_memory_bytes",
                             "process_open_fds", "process_max_fds"}) {
      EXPECT_THAT(text, HasSubstr(std::string("\n") + name + " "));
    }
  }
  EXPECT_THAT(format_process_metrics(kOpenMetrics), EndsWith("\n# EOF\n"));
  EXPECT_THAT(format_process_metrics(kOpenMetrics), HasSubstr("# TYPE process_cpu_seconds counter\n"));
  EXPECT_THAT(format_process_metrics(kPrometheus), Not(HasSubstr("EOF")));
}

}  // namespace
}  // namespace sluice
