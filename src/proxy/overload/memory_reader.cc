#include "proxy/overload/memory_reader.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <sstream>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace sluice {

namespace {

// memory.stat has some sixty lines.
constexpr size_t kMaxFileBytes = 8192;
// Version 1 writes no limit as a number about as large as the largest.
constexpr uint64_t kNoLimit = uint64_t{1} << 60;
constexpr size_t kMaxGroups = 16;

// The text of a file that is open, in `room`; empty if it cannot be read.
std::string_view text_of(int fd, std::array<char, kMaxFileBytes>& room) {
  const ssize_t bytes = fd < 0 ? -1 : pread(fd, room.data(), room.size(), 0);
  return {room.data(), bytes > 0 ? static_cast<size_t>(bytes) : 0};
}

// 0 if there is none: `max`, or a file that cannot be read.
uint64_t first_number(std::string_view text) {
  uint64_t number = 0;
  return absl::SimpleAtoi(text.substr(0, text.find_first_of(" \n")), &number) ? number : 0;
}

// The number in a line "NAME NUMBER".
uint64_t line_number(std::string_view text, std::string_view name) {
  for (const std::string_view line : absl::StrSplit(text, '\n')) {
    if (line.starts_with(name) && line.size() > name.size() && line[name.size()] == ' ') {
      return first_number(line.substr(name.size() + 1));
    }
  }
  return 0;
}

uint64_t less(uint64_t from, uint64_t bytes) { return from > bytes ? from - bytes : 0; }

int open_file(const std::string& path) { return open(path.c_str(), O_RDONLY | O_CLOEXEC); }

}  // namespace

struct MemoryReader::Group {
  ~Group() {
    for (const int fd : {limit, usage, stat}) {
      if (fd >= 0) close(fd);
    }
  }
  Group() = default;
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;

  MemoryUse read() const {
    std::array<char, kMaxFileBytes> room;
    const uint64_t most = first_number(text_of(limit, room));
    if (most == 0 || most >= kNoLimit) return {};
    const uint64_t used = first_number(text_of(usage, room));
    const std::string_view lines = text_of(stat, room);
    const std::string_view prefix = v2 ? "" : "total_";
    const uint64_t cache = line_number(lines, absl::StrCat(prefix, "active_file")) +
                           line_number(lines, absl::StrCat(prefix, "inactive_file"));
    return {.used = less(used, cache), .limit = most};
  }

  int limit = -1, usage = -1, stat = -1;
  bool v2 = true;
};

MemoryReader::MemoryReader() : MemoryReader(Places()) {}

MemoryReader::MemoryReader(const Places& places) : statm_(open_file(places.proc + "/self/statm")) {
  std::ifstream file(places.proc + "/meminfo");
  std::string name;
  uint64_t kib = 0;
  if (file >> name >> kib && name == "MemTotal:") machine_bytes_ = kib * 1024;
  find_groups(places);
}

MemoryReader::~MemoryReader() {
  if (statm_ >= 0) close(statm_);
}

void MemoryReader::find_groups(const Places& places) {
  std::ifstream memberships(places.proc + "/self/cgroup");
  // HIERARCHY:CONTROLLERS:PATH; version 2 is hierarchy 0 without controllers.
  for (std::string line; std::getline(memberships, line);) {
    const std::vector<std::string> parts = absl::StrSplit(line, absl::MaxSplits(':', 2));
    if (parts.size() != 3) continue;
    if (parts[1].empty()) {
      add_groups(places.cgroups, parts[2], /*v2=*/true);
    } else if (absl::StrCat(",", parts[1], ",").find(",memory,") != std::string::npos) {
      add_groups(places.cgroups + "/memory", parts[2], /*v2=*/false);
    }
  }
}

// From `path` up to the root, which in a container is often all that is visible of it.
void MemoryReader::add_groups(const std::string& mount, std::string path, bool v2) {
  if (path == "/") path.clear();
  for (; groups_.size() < kMaxGroups; path.resize(path.rfind('/') == std::string::npos ? 0 : path.rfind('/'))) {
    const std::string folder = absl::StrCat(mount, path, "/memory.");
    auto group = std::make_unique<Group>();
    group->v2 = v2;
    group->limit = open_file(folder + (v2 ? "max" : "limit_in_bytes"));
    group->usage = open_file(folder + (v2 ? "current" : "usage_in_bytes"));
    group->stat = open_file(folder + "stat");
    if (group->read().limit != 0) groups_.push_back(std::move(group));
    if (path.empty()) return;
  }
}

MemoryUse MemoryReader::read(uint64_t limit) const {
  MemoryUse most;
  if (limit == 0) {
    for (const auto& group : groups_) {
      const MemoryUse use = group->read();
      if (most.limit == 0 || use.share() > most.share()) most = use;
    }
    if (most.limit != 0) return most;
    limit = machine_bytes_;
  }
  std::array<char, kMaxFileBytes> room;
  const std::string_view pages = text_of(statm_, room);
  // SIZE RESIDENT ...
  const size_t second = pages.find(' ');
  if (second == std::string_view::npos) return {};
  const auto page_bytes = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  return {.used = first_number(pages.substr(second + 1)) * page_bytes, .limit = limit};
}

std::string_view MemoryReader::limit_name(uint64_t limit) const {
  if (limit != 0) return "overload.memory.limit";
  return groups_.empty() ? "the machine's memory" : "the cgroup's limit";
}

}  // namespace sluice
