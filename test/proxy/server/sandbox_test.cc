// What a process with `sandbox` can no longer do. Each attempt is made from inside, in a child.
#include "proxy/server/sandbox.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <thread>

#include "proxy/config/load/loader.h"
#include "proxy/server/privileges.h"
#include "proxy/server/system_call_filter.h"
#include "test/proxy/server/attempts.h"

namespace sluice {
namespace {

using testing::Contains;
using testing::Not;

constexpr long kVersionWithScopes = 6;  // Linux 6.12.
// Their report of leaks needs more.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kSanitized = true;
#else
constexpr bool kSanitized = false;
#endif

long landlock_version() { return syscall(SYS_landlock_create_ruleset, nullptr, size_t{0}, 1U); }

bool can_bind_socket(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, sizeof address.sun_path - 1);
  const int fd = socket(AF_UNIX, SOCK_STREAM, 0);
  const bool bound = bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
  close(fd);
  return bound;
}

class Sandbox : public testing::Test {
 protected:
  void SetUp() override {
    if (!has_landlock().ok()) GTEST_SKIP() << "the kernel has no Landlock";
    folder_ = absl::StrCat(testing::TempDir(), "/sluice-sandbox-XXXXXX");
    ASSERT_TRUE(mkdtemp(folder_.data()));
    for (const char* name : {"read", "write", "other"}) {
      ASSERT_TRUE(std::filesystem::create_directory(in(name)));
      std::ofstream(in(name) + "/file") << "x";
    }
  }
  void TearDown() override {
    if (!folder_.empty()) std::filesystem::remove_all(folder_);
  }

  std::string in(std::string_view name) const { return absl::StrCat(folder_, "/", name); }

 private:
  std::string folder_;
};

TEST_F(Sandbox, OpensOnlyWhatItMay) {
  const pid_t parent = getpid();
  const bool scopes = landlock_version() >= kVersionWithScopes;
  EXPECT_EQ(in_child([&] {
              forbid_new_privileges();
              const absl::Status done = restrict_files({.read = {in("read"), in("missing")}, .write = {in("write")}});
              if (!done.ok()) return std::string(done.message());
              bool in_thread = true;
              std::thread([&] { in_thread = can_open(in("other/file").c_str(), O_RDONLY); }).join();
              return try_all({
                  {"read what is elsewhere", [&] { return can_open(in("other/file").c_str(), O_RDONLY); }},
                  {"read it in a thread", [&] { return in_thread; }},
                  {"list what is elsewhere", [&] { return can_open(in("other").c_str(), O_RDONLY | O_DIRECTORY); }},
                  {"read /etc/passwd", [] { return can_open("/etc/passwd", O_RDONLY); }},
                  {"read by a way around", [&] { return can_open(in("read/../other/file").c_str(), O_RDONLY); }},
                  {"write where it reads", [&] { return can_open(in("read/file").c_str(), O_WRONLY); }},
                  {"truncate where it reads", [&] { return truncate(in("read/file").c_str(), 0) == 0; }},
                  {"make a file where it reads", [&] { return can_open(in("read/new").c_str(), O_WRONLY | O_CREAT); }},
                  {"remove a file where it reads", [&] { return unlink(in("read/file").c_str()) == 0; }},
                  {"make a folder", [&] { return mkdir(in("write/folder").c_str(), 0700) == 0; }},
                  {"make a link", [&] { return symlink("/etc/shadow", in("write/link").c_str()) == 0; }},
                  {"make a device", [&] { return mknod(in("write/null").c_str(), S_IFCHR, 0x103) == 0; }},
                  {"move a file out", [&] { return rename(in("write/file").c_str(), in("other/x").c_str()) == 0; }},
                  {"link a file out", [&] { return link(in("write/file").c_str(), in("other/y").c_str()) == 0; }},
                  {"socket elsewhere", [&] { return can_bind_socket(in("other/socket")); }},
                  {"run a program", [] { return execl("/bin/true", "true", nullptr) == 0 || errno != EACCES; }},
                  {"trace", [parent] { return ptrace(PTRACE_ATTACH, parent, nullptr, nullptr) == 0; }},
                  {"signal", [parent, scopes] { return scopes && kill(parent, 0) == 0; }},
                  {"read a file", [&] { return can_open(in("read/file").c_str(), O_RDONLY); }},
                  {"list", [&] { return can_open(in("read").c_str(), O_RDONLY | O_DIRECTORY); }},
                  {"make a file", [&] { return can_open(in("write/new").c_str(), O_RDWR | O_CREAT | O_TRUNC); }},
                  {"append", [&] { return can_open(in("write/file").c_str(), O_WRONLY | O_APPEND); }},
                  {"nameless file", [&] { return can_open(in("write").c_str(), O_RDWR | O_TMPFILE); }},
                  {"socket", [&] { return can_bind_socket(in("write/socket")); }},
                  {"remove", [&] { return unlink(in("write/new").c_str()) == 0; }},
              });
            }),
            "read a file; list; make a file; append; nameless file; socket; remove; ");
}

TEST_F(Sandbox, MakesOnlyCallsOfServing) {
  const pid_t parent = getpid();
  EXPECT_EQ(in_child([&] {
              forbid_new_privileges();
              std::atomic<bool> stop{false};
              bool in_thread = true;
              std::thread earlier([&] {
                while (!stop) usleep(1000);
                in_thread = mkdir(in("write/thread").c_str(), 0700) == 0;
              });
              const absl::Status done = allow_used_system_calls();
              stop = true;
              earlier.join();
              if (!done.ok()) return std::string(done.message());
              const auto refuses = [](long number, int error) {
                return syscall(number, 0, 0, 0, 0, 0) == -1 && errno == error;
              };
              const std::string made = try_all({
                  {"call of a thread that began before", [&] { return in_thread; }},
                  {"program", [] { return execl("/bin/true", "true", nullptr) == 0 || errno != EPERM; }},
                  {"process", [] { return syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0) >= 0; }},
                  {"namespace", [] { return syscall(SYS_clone, CLONE_NEWUSER | SIGCHLD, 0, 0, 0, 0) >= 0; }},
                  {"unshare", [] { return unshare(CLONE_NEWUSER) == 0; }},
                  {"user", [] { return setresuid(1, 1, 1) == 0 || errno != EPERM; }},
                  {"folder", [&] { return mkdir(in("write/folder").c_str(), 0700) == 0; }},
                  {"link", [&] { return symlink("x", in("write/link").c_str()) == 0; }},
                  {"new name", [&] { return rename(in("write/file").c_str(), in("write/x").c_str()) == 0; }},
                  {"chroot", [] { return chroot("/") == 0; }},
                  {"chdir", [] { return chdir("/") == 0; }},
                  {"personality", [&] { return !refuses(SYS_personality, EPERM); }},
                  {"memfd_create", [&] { return !refuses(SYS_memfd_create, EPERM); }},
                  {"process_vm_readv", [&] { return !refuses(SYS_process_vm_readv, EPERM); }},
                  {"bpf", [&] { return !refuses(SYS_bpf, EPERM); }},
                  {"keyctl", [&] { return !refuses(SYS_keyctl, EPERM); }},
                  {"mount", [&] { return !refuses(SYS_mount, EPERM); }},
                  {"splice", [&] { return !refuses(SYS_splice, EPERM); }},
                  {"newer than this program", [&] { return !refuses(463, ENOSYS); }},
                  {"packet socket", [] { return socket(AF_PACKET, SOCK_RAW, 0) >= 0 || errno != EAFNOSUPPORT; }},
                  {"signal", [parent] { return !kSanitized && kill(parent, 0) == 0; }},
                  {"trace", [parent] { return !kSanitized && ptrace(PTRACE_ATTACH, parent, nullptr, nullptr) == 0; }},
              });
              bool ran = false;
              std::thread([&ran] { ran = true; }).join();
              return made + (ran ? "" : "no thread");
            }),
            "");
}

config::Config load(std::string_view text) {
  absl::StatusOr<config::Config> loaded = config::load_text(text, "f");
  EXPECT_TRUE(loaded.ok()) << loaded.status();
  return *std::move(loaded);
}

constexpr std::string_view kUpstream = "upstreams: [ { name: b, endpoints: [ 127.0.0.1:1 ] } ]\n";

TEST(SandboxFiles, AreTheFoldersOfWhatTheConfigurationNames) {
  const config::Config config = load(absl::StrCat(
      "sandbox: true\nlog: { to: /logs/run/sluice.log }\nadmin: { address: \"unix:/run/s/admin\", token_file: "
      "/secret/token }\n"
      "body_file: { directory: /spool/bodies }\n"
      "listeners: [ { name: a, address: [ \"127.0.0.1:1\", \"unix:/run/a/socket\", \"unix:@abstract\" ], http: {\n"
      "  access_log: { file: /logs/access/a.log }, routes: [ { forward: b, buffer: { requests: 1MiB } } ] },\n"
      "  tls: { certificates: [ { chain: /tls/a.pem, key: /keys/a.key } ] } } ]\n",
      kUpstream));
  const AllowedFiles files = sandbox_files(config, {"conf/sluice.yaml", "plain.yaml", "/conf.d/*.yaml"});
  for (const char* each : {"conf", ".", "/conf.d", "/tls", "/keys", "/secret"}) {
    EXPECT_THAT(files.read, Contains(each));
    EXPECT_THAT(files.write, Not(Contains(each)));
  }
  for (const char* each : {"/logs/run", "/logs/access", "/run/s", "/run/a", "/spool/bodies"}) {
    EXPECT_THAT(files.write, Contains(each));
  }
  EXPECT_THAT(files.write, Not(Contains("@abstract")));
}

TEST(SandboxFiles, BodiesNeedAFolderOnlyWhereTheyAreKept) {
  const config::Config config = load(absl::StrCat(
      "sandbox: true\nlisteners: [ { name: a, address: 127.0.0.1:1, http: { forward: b } } ]\n", kUpstream));
  EXPECT_THAT(sandbox_files(config, {}).write, testing::ElementsAre("/dev/null"));
}

TEST(SandboxFiles, OfALink) {
  const std::string folder = absl::StrCat(testing::TempDir(), "/sluice-link-", getpid());
  std::filesystem::create_directories(folder + "/live");
  std::filesystem::create_directories(folder + "/archive");
  std::ofstream(folder + "/archive/a1.pem") << "x";
  std::filesystem::create_symlink("../archive/a1.pem", folder + "/live/a.pem");
  EXPECT_THAT(sandbox_files({}, {folder + "/live/a.pem"}).read,
              testing::IsSupersetOf({folder + "/live", std::filesystem::canonical(folder).string() + "/archive"}));
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace sluice
