#include "proxy/server/exposition.h"

#include <sys/resource.h>
#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <system_error>
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

std::string_view type_of(std::string_view name) { return absl::EndsWith(name, "_total") ? "counter" : "gauge"; }

void add_family(std::string& out, std::string_view name, std::string_view help) {
  if (!help.empty()) absl::StrAppend(&out, "# HELP ", name, " ", help, "\n");
  absl::StrAppend(&out, "# TYPE ", name, " ", type_of(name), "\n");
}

template <class Value>
void add_process(std::string& out, std::string_view name, std::string_view help, Value value) {
  add_family(out, name, help);
  absl::StrAppend(&out, name, " ", value, "\n");
}

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

std::string exposition(std::string_view lines) {
  std::vector<std::pair<std::string_view, std::string>> families;
  absl::flat_hash_map<std::string_view, size_t> index;
  for (const std::string_view line : absl::StrSplit(lines, '\n', absl::SkipEmpty())) {
    const std::string_view name = line.substr(0, line.find_first_of("{ "));
    const auto [at, is_new] = index.emplace(name, families.size());
    if (is_new) families.emplace_back(name, std::string());
    absl::StrAppend(&families[at->second].second, line, "\n");
  }
  std::string out;
  out.reserve(2 * lines.size());
  for (const auto& [name, series] : families) {
    add_family(out, name, metric_help(absl::StripPrefix(name, kPrefix)));
    out += series;
  }
  return out;
}

// See proc(5): the fields behind the name of the program, which is in brackets, begin with the third.
std::string format_process_metrics() {
  std::string out;
  const std::string stat = first_line("/proc/self/stat");
  const size_t name_end = stat.rfind(") ");
  const auto ticks = static_cast<double>(sysconf(_SC_CLK_TCK));
  if (name_end != std::string::npos) {
    const std::vector<std::string> fields = absl::StrSplit(stat.substr(name_end + 2), ' ');
    const auto field = [&](size_t number) {
      uint64_t value = 0;
      return number - 3 < fields.size() && absl::SimpleAtoi(fields[number - 3], &value) ? value : 0;
    };
    add_process(out, "process_cpu_seconds_total", "Total user and system CPU time spent in seconds.",
                absl::StrFormat("%.2f", static_cast<double>(field(14) + field(15)) / ticks));
    if (const uint64_t booted = boot_time_s()) {
      add_process(out, "process_start_time_seconds", "Start time of the process since 1970 in seconds.",
                  absl::StrFormat("%.2f", static_cast<double>(booted) + static_cast<double>(field(22)) / ticks));
    }
    add_process(out, "process_threads", "Threads of the process.", field(20));
    add_process(out, "process_virtual_memory_bytes", "Virtual memory size in bytes.", field(23));
    add_process(out, "process_resident_memory_bytes", "Resident memory size in bytes.",
                field(24) * static_cast<uint64_t>(sysconf(_SC_PAGESIZE)));
  }
  std::error_code error;
  uint64_t open = 0;
  const std::filesystem::directory_iterator end;
  for (std::filesystem::directory_iterator at("/proc/self/fd", error); !error && at != end; at.increment(error)) ++open;
  if (!error) add_process(out, "process_open_fds", "Number of open file descriptors.", open);
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
    add_process(out, "process_max_fds", "Maximum number of open file descriptors.", uint64_t{limit.rlim_cur});
  }
  return out;
}

}  // namespace sluice
