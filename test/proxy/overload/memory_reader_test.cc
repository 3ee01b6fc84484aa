#include "proxy/overload/memory_reader.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace sluice {
namespace {

constexpr uint64_t kMiB = uint64_t{1} << 20;

class MemoryReaderTest : public testing::Test {
 protected:
  MemoryReaderTest() {
    write("proc/self/statm", "90000 25600 1000 1 0 2000 0\n");
    write("proc/meminfo", "MemTotal:       4096000 kB\nMemFree: 1 kB\n");
  }
  ~MemoryReaderTest() override { std::filesystem::remove_all(root_); }

  void write(const std::string& name, const std::string& text) {
    const std::filesystem::path path = std::filesystem::path(root_) / name;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << text;
  }
  MemoryReader::Places places() const { return {.proc = root_ + "/proc", .cgroups = root_ + "/cgroup"}; }
  static uint64_t resident() { return 25600 * static_cast<uint64_t>(sysconf(_SC_PAGESIZE)); }

  const std::string root_ = testing::TempDir() + "memory_reader_" + std::to_string(getpid());
};

TEST_F(MemoryReaderTest, ComparesTheResidentMemoryWithTheConfiguredLimit) {
  const MemoryReader reader(places());
  const MemoryUse use = reader.read(200 * kMiB);
  EXPECT_EQ(use.used, resident());
  EXPECT_EQ(use.limit, 200 * kMiB);
  EXPECT_EQ(reader.limit_name(200 * kMiB), "overload.memory.limit");
}

TEST_F(MemoryReaderTest, ComparesItWithTheMachinesMemoryWithoutALimit) {
  write("proc/self/cgroup", "0::/a\n");
  write("cgroup/a/memory.max", "max\n");
  const MemoryReader reader(places());
  EXPECT_EQ(reader.read(0).used, resident());
  EXPECT_EQ(reader.read(0).limit, 4096000u * 1024);
  EXPECT_EQ(reader.limit_name(0), "the machine's memory");
}

TEST_F(MemoryReaderTest, ReadsTheCgroupThatIsClosestToItsLimit) {
  write("proc/self/cgroup", "0::/a/b\n");
  write("cgroup/a/memory.max", "268435456\n");
  write("cgroup/a/memory.current", "209715200\n");
  write("cgroup/a/memory.stat", "anon 1\nactive_file 1048576\ninactive_file 2097152\nslab 3\n");
  write("cgroup/a/b/memory.max", "1073741824\n");
  write("cgroup/a/b/memory.current", "104857600\n");
  write("cgroup/a/b/memory.stat", "anon 1\n");
  const MemoryReader reader(places());
  EXPECT_EQ(reader.read(0).used, 209715200 - 3 * kMiB) << "without file caches";
  EXPECT_EQ(reader.read(0).limit, 256 * kMiB);
  EXPECT_EQ(reader.limit_name(0), "the cgroup's limit");
  write("cgroup/a/memory.max", "536870912\n");
  EXPECT_EQ(reader.read(0).limit, 512 * kMiB) << "a limit that changes is seen";
}

TEST_F(MemoryReaderTest, ReadsVersionOne) {
  write("proc/self/cgroup", "5:devices:/\n4:memory:/a\n0::/\n");
  write("cgroup/memory/a/memory.limit_in_bytes", "268435456\n");
  write("cgroup/memory/a/memory.usage_in_bytes", "104857600\n");
  write("cgroup/memory/a/memory.stat", "cache 1\nactive_file 5\ntotal_active_file 1048576\ntotal_inactive_file 0\n");
  write("cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  const MemoryReader reader(places());
  EXPECT_EQ(reader.read(0).used, 99 * kMiB);
  EXPECT_EQ(reader.read(0).limit, 256 * kMiB);
}

TEST_F(MemoryReaderTest, KnowsNothingWithoutFiles) {
  const MemoryReader reader({.proc = root_ + "/none", .cgroups = root_ + "/none"});
  EXPECT_EQ(reader.read(0).limit, 0u);
}

TEST(MemoryReaderOfThisProcessTest, ReadsSomething) {
  const MemoryReader reader;
  EXPECT_GT(reader.read(uint64_t{1} << 40).used, kMiB);
}

}  // namespace
}  // namespace sluice
