#include "proxy/common/cpus.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

namespace sluice {
namespace {

/// A cgroup hierarchy in a directory of its own.
class CgroupTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = ::testing::TempDir() + "sluice_cgroup_XXXXXX";
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    root_ = name;
  }
  void TearDown() override { std::filesystem::remove_all(root_); }

  void write(const std::string& file, const std::string& text) {
    const std::filesystem::path path = root_ + "/" + file;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << text;
  }
  unsigned quota(const std::string& membership) { return cgroup_cpu_quota(root_, membership); }

  std::string root_;
};

TEST_F(CgroupTest, NoQuota) {
  EXPECT_EQ(quota(""), 0u);
  EXPECT_EQ(quota("0::/\n"), 0u);
  EXPECT_EQ(quota("0::/some/group\n"), 0u);
  EXPECT_EQ(quota("nonsense\n:\n::\n0:\n"), 0u);
}

TEST_F(CgroupTest, V2) {
  write("cpu.max", "200000 100000\n");
  EXPECT_EQ(quota("0::/\n"), 2u);
  write("cpu.max", "max 100000\n");
  EXPECT_EQ(quota("0::/\n"), 0u);
}

TEST_F(CgroupTest, RoundedUp) {
  const std::pair<const char*, unsigned> cases[] = {
      {"100000 100000", 1}, {"100001 100000", 2}, {"150000 100000", 2}, {"199999 100000", 2},
      {"10000 100000", 1},  {"1000 100000", 1},   {"50000 50000", 1},   {"6400000 100000", 64},
  };
  for (const auto& [text, cpus] : cases) {
    write("cpu.max", text);
    EXPECT_EQ(quota("0::/\n"), cpus) << text;
  }
}

TEST_F(CgroupTest, UnreadableTextIsNoQuota) {
  for (const char* text : {"", "max", "100000", "x y", "0 100000", "-1 100000", "100000 0"}) {
    write("cpu.max", text);
    EXPECT_EQ(quota("0::/\n"), 0u) << text;
  }
}

// Groups above the process's own group may have a lower quota.
TEST_F(CgroupTest, LowestOfAllAncestors) {
  write("a/b/c/cpu.max", "800000 100000");
  write("a/b/cpu.max", "max 100000");
  write("a/cpu.max", "300000 100000");
  EXPECT_EQ(quota("0::/a/b/c\n"), 3u);
  write("cpu.max", "200000 100000");
  EXPECT_EQ(quota("0::/a/b/c\n"), 2u);
  write("a/b/c/cpu.max", "100000 100000");
  EXPECT_EQ(quota("0::/a/b/c\n"), 1u);
  EXPECT_EQ(quota("0::/a/b\n"), 2u);
  // Other groups do not count.
  write("z/cpu.max", "50000 100000");
  EXPECT_EQ(quota("0::/a/b/c\n"), 1u);
}

// Inside a container the path is often the host's, of which only the root is mounted.
TEST_F(CgroupTest, PathOfTheHost) {
  write("cpu.max", "400000 100000");
  EXPECT_EQ(quota("0::/kubepods.slice/pod1234/container\n"), 4u);
  EXPECT_EQ(quota("0::/../../elsewhere\n"), 4u);
}

TEST_F(CgroupTest, V1) {
  write("cpu/docker/abc/cpu.cfs_quota_us", "250000");
  write("cpu/docker/abc/cpu.cfs_period_us", "100000");
  const std::string membership =
      "12:memory:/docker/abc\n"
      "4:cpu,cpuacct:/docker/abc\n"
      "1:name=systemd:/docker/abc\n";
  EXPECT_EQ(quota(membership), 3u);
  EXPECT_EQ(quota("4:cpuacct,cpu:/docker/abc\n"), 3u);
  EXPECT_EQ(quota("3:cpuset:/docker/abc\n"), 0u);
  EXPECT_EQ(quota("3:cpuacct:/docker/abc\n"), 0u);
  write("cpu/docker/abc/cpu.cfs_quota_us", "-1");
  EXPECT_EQ(quota(membership), 0u);
}

// Some systems have both hierarchies.
TEST_F(CgroupTest, HybridTakesTheLesser) {
  write("unified/cpu.max", "100000 100000");
  write("cpu/g/cpu.cfs_quota_us", "500000");
  write("cpu/g/cpu.cfs_period_us", "100000");
  write("g/cpu.max", "200000 100000");
  EXPECT_EQ(quota("4:cpu,cpuacct:/g\n0::/g\n"), 2u);
  EXPECT_EQ(quota("0::/g\n4:cpu,cpuacct:/g\n"), 2u);
}

TEST(UsableCpusTest, FollowsTheAffinityMask) {
  cpu_set_t before;
  ASSERT_EQ(sched_getaffinity(0, sizeof before, &before), 0);
  const unsigned all = usable_cpus();
  EXPECT_GE(all, 1u);
  EXPECT_LE(all, static_cast<unsigned>(CPU_COUNT(&before)));
  cpu_set_t one;
  CPU_ZERO(&one);
  for (size_t cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (!CPU_ISSET(cpu, &before)) continue;
    CPU_SET(cpu, &one);
    break;
  }
  ASSERT_EQ(sched_setaffinity(0, sizeof one, &one), 0);
  EXPECT_EQ(usable_cpus(), 1u);
  ASSERT_EQ(sched_setaffinity(0, sizeof before, &before), 0);
}

}  // namespace
}  // namespace sluice
