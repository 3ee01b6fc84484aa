#include "proxy/server/exposition.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace sluice {
namespace {

using testing::HasSubstr;

TEST(Exposition, GroupsTheSeriesOfAMetric) {
  EXPECT_EQ(exposition("sluice_accepted_total{listener=\"a\"} 1\n"
                       "sluice_sessions_active{listener=\"a\"} 2\n"
                       "sluice_accepted_total{listener=\"b c\"} 3\n"
                       "sluice_unknown 4\n"),
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

TEST(Exposition, ProcessMetrics) {
  const std::string text = format_process_metrics();
  for (const char* name : {"process_cpu_seconds_total", "process_start_time_seconds", "process_resident_memory_bytes",
                           "process_open_fds", "process_max_fds"}) {
    EXPECT_THAT(text, HasSubstr(std::string("\n") + name + " "));
  }
}

}  // namespace
}  // namespace sluice
