#include "proxy/server/exposition.h"

#include <sys/resource.h>
#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "proxy/server/metric_help.h"

namespace sluice {

namespace {

constexpr std::string_view kPrefix = "sluice_";

// The name of the metric that a series belongs to.
std::string_view metric_of(std::string_view series) {
  for (const std::string_view end : {"_bucket", "_sum", "_count"}) {
    std::string_view name = series;
    if (absl::ConsumeSuffix(&name, end) && !metric_help(absl::StripPrefix(name, kPrefix)).empty()) return name;
  }
  return series;
}

struct Family {
  std::string_view name;  // As OpenMetrics has it, which has no suffix for the type.
  std::string_view type;
};

Family family_of(std::string_view metric, bool is_histogram) {
  if (is_histogram) return {metric, "histogram"};
  if (std::string_view name = metric; absl::ConsumeSuffix(&name, "_total")) return {name, "counter"};
  if (std::string_view name = metric; absl::ConsumeSuffix(&name, "_info")) return {name, "info"};
  return {metric, "gauge"};
}

void add_family(std::string& out, std::string_view metric, std::string_view help, MetricsFormat format,
                bool is_histogram = false) {
  Family family = family_of(metric, is_histogram);
  const bool open = format == MetricsFormat::kOpenMetrics;
  if (!open) family = {metric, family.type == "info" ? "gauge" : family.type};
  if (!help.empty()) absl::StrAppend(&out, "# HELP ", family.name, " ", help, "\n");
  absl::StrAppend(&out, "# TYPE ", family.name, " ", family.type, "\n");
  for (const std::string_view unit : {"seconds", "bytes"}) {
    if (open && absl::EndsWith(family.name, absl::StrCat("_", unit))) {
      absl::StrAppend(&out, "# UNIT ", family.name, " ", unit, "\n");
    }
  }
}

// Metrics of one series.
struct ProcessMetrics {
  template <class Value>
  void add(std::string_view name, std::string_view help, Value value) {
    add_family(out, name, help, format);
    absl::StrAppend(&out, name, " ", value, "\n");
  }

  const MetricsFormat format;
  std::string out = {};
};

std::string first_line(const char* path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

// When the machine started, in seconds since 1970; 0 if it cannot be read.
uint64_t boot_time_s() {
  std::ifstream file("/proc/stat");
  for (std::string line; std::getline(file, line);) {
    std::string_view text = line;
    uint64_t seconds = 0;
    if (absl::ConsumePrefix(&text, "btime ") && absl::SimpleAtoi(text, &seconds)) return seconds;
  }
  return 0;
}

}  // namespace

std::string escaped(std::string_view value) {
  std::string result;
  for (char c : value) {
    if (c == '\\' || c == '"') result += '\\';
    result += c == '\n' ? ' ' : c;
  }
  return result;
}

void metric_line(std::string& out, std::string_view name, std::string_view labels, uint64_t value) {
  absl::StrAppend(&out, "sluice_", name, labels.empty() ? "" : "{", labels, labels.empty() ? "" : "}", " ", value,
                  "\n");
}

std::string exposition(std::string_view lines, MetricsFormat format) {
  struct Series {
    std::string_view metric;
    bool is_histogram;
    std::string lines = {};
  };
  std::vector<Series> metrics;
  absl::flat_hash_map<std::string_view, size_t> index;
  for (const std::string_view line : absl::StrSplit(lines, '\n', absl::SkipEmpty())) {
    const std::string_view name = line.substr(0, line.find_first_of("{ ")), metric = metric_of(name);
    const auto [at, is_new] = index.emplace(metric, metrics.size());
    if (is_new) metrics.push_back({metric, name != metric});
    absl::StrAppend(&metrics[at->second].lines, line, "\n");
  }
  std::string out;
  out.reserve(2 * lines.size());
  for (const Series& each : metrics) {
    add_family(out, each.metric, metric_help(absl::StripPrefix(each.metric, kPrefix)), format, each.is_histogram);
    out += each.lines;
  }
  return out;
}

// See proc(5): the fields behind the name of the program, which is in brackets, begin with the third.
std::string format_process_metrics(MetricsFormat format) {
  ProcessMetrics metrics{format};
  const std::string stat = first_line("/proc/self/stat");
  const size_t name_end = stat.rfind(") ");
  const auto ticks = static_cast<double>(sysconf(_SC_CLK_TCK));
  if (name_end != std::string::npos) {
    const std::vector<std::string> fields = absl::StrSplit(stat.substr(name_end + 2), ' ');
    const auto field = [&](size_t number) {
      uint64_t value = 0;
      return number - 3 < fields.size() && absl::SimpleAtoi(fields[number - 3], &value) ? value : 0;
    };
    metrics.add("process_cpu_seconds_total", "Total user and system CPU time spent in seconds.",
                absl::StrFormat("%.2f", static_cast<double>(field(14) + field(15)) / ticks));
    if (const uint64_t booted = boot_time_s()) {
      metrics.add("process_start_time_seconds", "Start time of the process since 1970 in seconds.",
                  absl::StrFormat("%.2f", static_cast<double>(booted) + static_cast<double>(field(22)) / ticks));
    }
    metrics.add("process_threads", "Threads of the process.", field(20));
    metrics.add("process_virtual_memory_bytes", "Virtual memory size in bytes.", field(23));
    metrics.add("process_resident_memory_bytes", "Resident memory size in bytes.",
                field(24) * static_cast<uint64_t>(sysconf(_SC_PAGESIZE)));
  }
  std::error_code error;
  uint64_t open = 0;
  const std::filesystem::directory_iterator end;
  for (std::filesystem::directory_iterator at("/proc/self/fd", error); !error && at != end; at.increment(error)) ++open;
  if (!error) metrics.add("process_open_fds", "Number of open file descriptors.", open);
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
    metrics.add("process_max_fds", "Maximum number of open file descriptors.", uint64_t{limit.rlim_cur});
  }
  if (format == MetricsFormat::kOpenMetrics) metrics.out += "# EOF\n";
  return std::move(metrics.out);
}

}  // namespace sluice
