// File chunks when the file system fails: full disks, limits of the system, file systems that lack a feature. A filter
// on system calls simulates most failures; a tiny tmpfs is really full.

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "sluice/file_pool.h"
#include "test/pool/file_pool_fixture.h"
#include "test/pool/resident.h"
#include "test/support/sanitizers.h"

namespace sluice {
namespace {

using ::testing::HasSubstr;

constexpr size_t kExtent = FilePool::kExtentBytes;
constexpr size_t kMiB = 1 << 20;

// From now on the system call `number` fails with `code` in this process if argument `argument` has one of the bits of
// `mask` (with a mask of 0, always). This is how kernels and file systems without the feature respond.
void make_fail(int number, int code, unsigned argument = 0, uint32_t mask = 0) {
  const uint32_t argument_offset = static_cast<uint32_t>(offsetof(seccomp_data, args) + sizeof(uint64_t) * argument);
  std::vector<sock_filter> program{
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<uint32_t>(number), 0, static_cast<uint8_t>(mask ? 3 : 1)),
  };
  if (mask) {
    program.push_back(BPF_STMT(BPF_LD | BPF_W | BPF_ABS, argument_offset));
    program.push_back(BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, mask, 0, 1));
  }
  program.push_back(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | static_cast<uint32_t>(code)));
  program.push_back(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
  const sock_fprog filter{static_cast<uint16_t>(program.size()), program.data()};
  // For all threads, including those of pools.
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
      syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &filter) != 0) {
    std::fprintf(stderr, "no filter: %s\n", std::strerror(errno));
    _exit(9);
  }
}

#define CHECK_THAT(condition)                                                      \
  do {                                                                             \
    if (!(condition)) {                                                            \
      std::fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition); \
      _exit(1);                                                                    \
    }                                                                              \
  } while (false)

// Each test runs its body in a process of its own, since its effects on the process cannot be undone.
class FilePoolDeathTest : public testing::Test {
 protected:
  FilePoolDeathTest() { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
  static FilePool::Options options(size_t limit_bytes = kMiB, size_t step_bytes = 4 * kExtent) {
    return {.directory = test::file_directory(), .limit_bytes = limit_bytes, .step_bytes = step_bytes};
  }
  /// Prints the error and exits.
  static void print_and_exit(const FileError& error) {
    std::fprintf(stderr, "%d %s\n", static_cast<int>(error.kind), error.message.c_str());
    _exit(0);
  }
};

// ---- Unsuitable directories and file systems ----

TEST(FilePool, RefusesAMissingDirectory) {
  const FilePool files({.directory = "/var/tmp/not/there"});
  EXPECT_FALSE(files.ok());
  EXPECT_EQ(files.error().kind, FileError::Kind::kUnusable);
  EXPECT_EQ(files.error().code, ENOENT);
  EXPECT_EQ(
      files.error().message,
      "cannot keep bytes in a file in /var/tmp/not/there (limit 1073741824 bytes): cannot make a file: No such file "
      "or directory; name a directory that exists and is writable");
}

TEST(FilePool, UnusablePoolRefusesEverything) {
  FilePool files({.directory = "/proc/self/not/there"});
  FileError error;
  EXPECT_EQ(files.get(1, &error), nullptr);
  EXPECT_EQ(error.kind, FileError::Kind::kUnusable);
  EXPECT_EQ(error.message, files.error().message);
  EXPECT_EQ(files.get(1), nullptr);
  EXPECT_EQ(files.disk_bytes(), 0u);
  EXPECT_EQ(files.file_system_bytes(), 0u);
  EXPECT_FALSE(files.contains(nullptr));
  EXPECT_FALSE(files.in_memory());
  files.trim();
}

TEST(FilePool, RefusesALimitBelowOneExtent) {
  const FilePool files({.directory = test::file_directory(), .limit_bytes = kExtent - 1});
  EXPECT_EQ(files.error().kind, FileError::Kind::kUnusable);
  EXPECT_THAT(files.error().message, HasSubstr("the limit is less than 64 KiB; raise it"));
}

TEST(FilePool, RefusesALimitThatCannotBeMapped) {
  const FilePool files({.directory = test::file_directory(), .limit_bytes = SIZE_MAX});
  EXPECT_EQ(files.error().kind, FileError::Kind::kUnusable);
  EXPECT_THAT(files.error().message, HasSubstr("cannot map it"));
  EXPECT_THAT(files.error().message, HasSubstr("lower the limit"));
}

TEST_F(FilePoolDeathTest, RefusesAFileSystemThatCannotReserveBlocks) {
  EXPECT_EXIT(
      {
        make_fail(SYS_fallocate, EOPNOTSUPP);
        const FilePool files(options());
        CHECK_THAT(files.error().code == EOPNOTSUPP);
        print_and_exit(files.error());
      },
      testing::ExitedWithCode(0),
      "1 .*cannot reserve blocks .fallocate.: Operation not supported; choose a directory on");
}

TEST_F(FilePoolDeathTest, RefusesAFileSystemThatCannotPunchHoles) {
  EXPECT_EXIT(
      {
        make_fail(SYS_fallocate, EOPNOTSUPP, 1, FALLOC_FL_PUNCH_HOLE);
        const FilePool files(options());
        print_and_exit(files.error());
      },
      testing::ExitedWithCode(0),
      "1 .*cannot give blocks back .FALLOC_FL_PUNCH_HOLE.: Operation not supported; choose");
}

// The filter lets a call return 0 without doing anything, as ZFS does.
TEST_F(FilePoolDeathTest, RefusesAFileSystemThatDoesNotReallyReserveBlocks) {
  EXPECT_EXIT(
      {
        make_fail(SYS_fallocate, 0);
        const FilePool files(options());
        print_and_exit(files.error());
      },
      testing::ExitedWithCode(0), "1 .*its blocks were not reserved");
}

TEST_F(FilePoolDeathTest, RefusesAFileSystemThatDoesNotReallyPunchHoles) {
  EXPECT_EXIT(
      {
        make_fail(SYS_fallocate, 0, 1, FALLOC_FL_PUNCH_HOLE);
        const FilePool files(options());
        print_and_exit(files.error());
      },
      testing::ExitedWithCode(0), "1 .*its blocks were not given back");
}

TEST_F(FilePoolDeathTest, UnlinksTheFileWithoutOTmpfile) {
  EXPECT_EXIT(
      {
        make_fail(SYS_openat, EOPNOTSUPP, 2, O_TMPFILE & ~O_DIRECTORY);
        CHECK_THAT(open("/var/tmp", O_TMPFILE | O_RDWR, 0600) < 0 && errno == EOPNOTSUPP);
        FilePool files(options());
        CHECK_THAT(files.ok());
        const ChunkRef chunk = test::chunk_of(files, kExtent);
        std::memset(chunk.data(), 1, kExtent);
        char map[4096] = "";
        bool deleted = false;
        for (FILE* maps = std::fopen("/proc/self/maps", "r"); std::fgets(map, sizeof map, maps);) {
          deleted |= std::strstr(map, "/sluice-") && std::strstr(map, "(deleted)");
        }
        CHECK_THAT(deleted);
        _exit(0);
      },
      testing::ExitedWithCode(0), "");
}

TEST_F(FilePoolDeathTest, ReportsAFailureToStartItsThread) {
  EXPECT_EXIT(
      {
        make_fail(SYS_clone3, EAGAIN);
        make_fail(SYS_clone, EAGAIN);
        const FilePool files(options());
        print_and_exit(files.error());
      },
      testing::ExitedWithCode(0), "1 .*cannot start a thread: Resource temporarily unavailable; raise `ulimit -u`");
}

// ---- Full ----

// Mounts a file system of 1 MiB. False if this is not permitted.
bool mount_tiny(const char* directory) {
  return unshare(CLONE_NEWNS) == 0 && mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
         mount("tiny", directory, "tmpfs", 0, "size=1m") == 0;
}

TEST_F(FilePoolDeathTest, FullDiskIsAClearError) {
  char directory[] = "/tmp/sluice-tiny-XXXXXX";
  ASSERT_NE(mkdtemp(directory), nullptr);
  EXPECT_EXIT(
      {
        if (!mount_tiny(directory)) {
          std::fprintf(stderr, "may not mount: skipped no room for 65536 more bytes\n");
          _exit(0);
        }
        FilePool files({.directory = directory, .limit_bytes = 64 * kMiB, .step_bytes = 6 * kExtent});
        CHECK_THAT(files.ok());
        CHECK_THAT(files.in_memory());
        std::vector<ChunkRef> chunks;
        FileError error;
        while (Chunk* chunk = files.get(kExtent, &error)) {
          std::memset(chunk->data, static_cast<int>(chunks.size()), kExtent);  // No SIGBUS.
          chunks.push_back(ChunkRef::take(chunk));
        }
        CHECK_THAT(chunks.size() == 16);  // Not only whole steps.
        CHECK_THAT(error.code == ENOSPC);
        CHECK_THAT(files.disk_bytes() == kMiB);
        CHECK_THAT(files.file_system_bytes() == kMiB);
        CHECK_THAT(files.stats().refused_by_disk == 1 && files.stats().refused_by_limit == 0);
        for (size_t i = 0; i < chunks.size(); ++i) CHECK_THAT(test::is_filled(chunks[i], static_cast<int>(i)));
        // Released chunks can be taken again, also after their blocks were returned.
        chunks.pop_back();
        CHECK_THAT(test::chunk_of(files, 5000));
        files.trim();
        CHECK_THAT(files.file_system_bytes() == 15 * kExtent);
        CHECK_THAT(test::chunk_of(files, kExtent));
        print_and_exit(error);
      },
      testing::ExitedWithCode(0),
      "3 no room for 65536 more bytes in a file in /tmp/sluice-tiny-[^ ]* .1048576 bytes in "
      "use, limit 67108864.: No space left on device; free space there, or choose another|"
      "skipped");
  rmdir(directory);
}

TEST_F(FilePoolDeathTest, FileSizeLimitIsAClearErrorAndNoSignal) {
  EXPECT_EXIT(
      {
        rlimit small{};
        small.rlim_cur = small.rlim_max = 5 * kExtent;
        setrlimit(RLIMIT_FSIZE, &small);
        FilePool files(options());
        CHECK_THAT(files.ok());
        std::vector<ChunkRef> chunks;
        FileError error;
        while (Chunk* chunk = files.get(kExtent, &error)) chunks.push_back(ChunkRef::take(chunk));
        CHECK_THAT(chunks.size() == 5);
        CHECK_THAT(files.stats().refused_by_disk == 1);
        print_and_exit(error);
      },
      testing::ExitedWithCode(0), "3 no room for 65536 more bytes .*: File too large; raise `ulimit -f`");
}

TEST_F(FilePoolDeathTest, QuotaIsAClearError) {
  EXPECT_EXIT(
      {
        FilePool files(options());
        const ChunkRef chunk = test::chunk_of(files, kExtent);
        std::vector<ChunkRef> rest;
        for (int i = 0; i < 3; ++i) rest.push_back(test::chunk_of(files, kExtent));
        make_fail(SYS_fallocate, EDQUOT);
        FileError error;
        CHECK_THAT(files.get(kExtent, &error) == nullptr);
        CHECK_THAT(files.disk_bytes() == 4 * kExtent);
        rest.clear();
        CHECK_THAT(files.get(kExtent) != nullptr);  // Reserved blocks can still be used.
        print_and_exit(error);
      },
      testing::ExitedWithCode(0), "3 no room .*: Disk quota exceeded; raise the quota");
}

TEST_F(FilePoolDeathTest, FailedWriteIsAClearError) {
  EXPECT_EXIT(
      {
        FilePool files(options());
        const ChunkRef chunk = test::chunk_of(files, kExtent);
        make_fail(SYS_pwritev, EIO);
        char bytes[100] = "";
        iovec piece{};
        piece.iov_base = bytes;
        piece.iov_len = sizeof bytes;
        FileError error;
        CHECK_THAT(!files.write(chunk.data(), std::span(&piece, 1), &error));
        CHECK_THAT(error.code == EIO);
        CHECK_THAT(files.stats().refused_by_disk == 1);
        print_and_exit(error);
      },
      testing::ExitedWithCode(0), "3 no room for 100 more bytes .*: Input/output error; check the disk");
}

TEST_F(FilePoolDeathTest, BlocksThatCannotBeReturnedAreReused) {
  EXPECT_EXIT(
      {
        FilePool files(options());
        std::vector<ChunkRef> chunks;
        while (Chunk* chunk = files.get(kExtent)) chunks.push_back(ChunkRef::take(chunk));
        make_fail(SYS_fallocate, EIO);
        chunks.clear();
        files.trim();
        CHECK_THAT(files.stats().give_back_errors > 0);
        CHECK_THAT(files.stats().given_back_bytes == 0);
        CHECK_THAT(files.disk_bytes() == kMiB);
        while (Chunk* chunk = files.get(kExtent)) chunks.push_back(ChunkRef::take(chunk));
        CHECK_THAT(chunks.size() == 16);
        _exit(0);
      },
      testing::ExitedWithCode(0), "");
}

// ---- Leaks ----

TEST_F(FilePoolDeathTest, ReportsLeaksAndLeavesThemMapped) {
  EXPECT_EXIT(
      {
        std::vector<Chunk*> chunks;
        {
          FilePool files(options());
          for (size_t bytes : {4096, 4096, 65536}) chunks.push_back(files.get(bytes));
          for (Chunk* chunk : chunks) std::memset(chunk->data, 0x33, chunk->capacity);
        }
        for (Chunk* chunk : chunks) {
          CHECK_THAT(test::is_mapped(chunk->data) && chunk->data[chunk->capacity - 1] == std::byte{0x33});
        }
        _exit(0);
      },
      testing::ExitedWithCode(0),
      "^sluice: leak: 73728 bytes in chunks of the file in /[^ ]* were not released: 2 x 4096 B 1 x 65536 B\n$");
}

TEST_F(FilePoolDeathTest, LastReturnedChunkClosesTheFile) {
  EXPECT_EXIT(
      {
        std::vector<ChunkRef> chunks;
        const std::byte* data = nullptr;
        {
          FilePool files(options());
          for (size_t bytes : {4096, 65536}) chunks.push_back(ChunkRef::take(files.get(bytes)));
          data = chunks[0].data();
        }
        chunks.pop_back();
        CHECK_THAT(test::is_mapped(data));
        chunks.clear();
        CHECK_THAT(!test::is_mapped(data));
        _exit(0);
      },
      testing::ExitedWithCode(0), "sluice: leak: 69632 bytes");
}

#ifdef SLUICE_ASAN
TEST_F(FilePoolDeathTest, FreeChunkIsPoisoned) {
  FilePool files(options());
  Chunk* const chunk = files.get(8192);
  volatile std::byte* const last = chunk->data + 8191;
  *last = std::byte{1};
  chunk_unref(chunk);
  EXPECT_DEATH(*last = std::byte{2}, "use-after-poison");
  const ChunkRef again = test::chunk_of(files, 8192);
  *last = std::byte{3};
}
#endif

}  // namespace
}  // namespace sluice
