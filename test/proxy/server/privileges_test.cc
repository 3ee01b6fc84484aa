// What a process can no longer do once it has given up root. Each attempt is made from inside, in a child.
#include "proxy/server/privileges.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <grp.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <thread>

#include "absl/strings/str_cat.h"
#include "proxy/config/load/loader.h"
#include "proxy/server/system_call_filter.h"
#include "test/proxy/server/attempts.h"

namespace sluice {
namespace {

using testing::HasSubstr;

constexpr char kUser[] = "nobody";

config::ProcessUser user_of(std::string_view text) { return *config::ProcessUser::parse(text); }

config::Config with_address(std::string_view address, std::string_view more = "") {
  return *config::load_text(absl::StrCat("listeners: [ { name: a, address: \"", address,
                                         "\", tcp: { forward: b } } ]\n"
                                         "upstreams: [ { name: b, endpoints: [ 127.0.0.1:1 ] } ]\n",
                                         more),
                            "f");
}

// Changes the user and returns "", or why it could not.
std::string drop(bool keeps_low_ports) {
  forbid_new_privileges();
  const absl::StatusOr<ProcessIds> ids = find_process_ids(user_of(kUser));
  if (!ids.ok()) return std::string(ids.status().message());
  return std::string(become(*ids, keeps_low_ports).message());
}

bool can_bind(uint16_t port) {
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK | 0x4d0000);
  address.sin_port = htons(port);
  const bool bound = bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
  close(fd);
  return bound;
}

std::string lines_of(const std::string& status, const char* key) {
  std::string found;
  std::ifstream file(status);
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with(key)) found = line.substr(line.find('\t') + 1);
  }
  return found;
}

class Privileges : public testing::Test {
 protected:
  void SetUp() override {
    if (geteuid() != 0) GTEST_SKIP() << "only root can change to another user";
    if (!find_process_ids(user_of(kUser)).ok()) GTEST_SKIP() << "no user " << kUser;
  }
};

TEST_F(Privileges, NothingOfRootIsLeft) {
  const pid_t parent = getpid();
  EXPECT_EQ(in_child([parent] {
              if (const std::string error = drop(/*keeps_low_ports=*/false); !error.empty()) return error;
              return try_all({
                  {"setuid", [] { return setuid(0) == 0; }},
                  {"seteuid", [] { return seteuid(0) == 0; }},
                  {"setgid", [] { return setgid(0) == 0; }},
                  {"setgroups", [] { return setgroups(0, nullptr) == 0; }},
                  {"write /etc/shadow", [] { return can_open("/etc/shadow", O_WRONLY); }},
                  {"read /etc/shadow", [] { return can_open("/etc/shadow", O_RDONLY); }},
                  {"write /etc/passwd", [] { return can_open("/etc/passwd", O_WRONLY | O_APPEND); }},
                  {"read the memory of root's processes", [] { return can_open("/proc/1/mem", O_RDONLY); }},
                  {"ptrace", [parent] { return ptrace(PTRACE_ATTACH, parent, nullptr, nullptr) == 0; }},
                  {"kill", [parent] { return kill(parent, 0) == 0; }},
                  {"mount", [] { return mount("none", "/mnt", "tmpfs", 0, nullptr) == 0; }},
                  {"chroot", [] { return chroot("/") == 0; }},
                  {"raw socket", [] { return socket(AF_INET, SOCK_RAW, IPPROTO_ICMP) >= 0; }},
                  {"packet socket", [] { return socket(AF_PACKET, SOCK_RAW, 0) >= 0; }},
                  {"port below 1024", [] { return can_bind(81); }},
                  {"sethostname", [] { return sethostname("x", 1) == 0; }},
                  {"lift no_new_privs", [] { return prctl(PR_SET_NO_NEW_PRIVS, 0, 0, 0, 0) == 0; }},
                  {"keep a capability", [] { return describe_process().find("without cap") == std::string::npos; }},
              });
            }),
            "");
}

TEST_F(Privileges, OneCapabilityStaysForLowPorts) {
  EXPECT_EQ(in_child([] {
              if (const std::string error = drop(/*keeps_low_ports=*/true); !error.empty()) return error;
              return try_all({
                  {"setuid", [] { return setuid(0) == 0; }},
                  {"read /etc/shadow", [] { return can_open("/etc/shadow", O_RDONLY); }},
                  {"raw socket", [] { return socket(AF_INET, SOCK_RAW, IPPROTO_ICMP) >= 0; }},
                  {"port below 1024", [] { return can_bind(81); }},
                  {"more", [] { return describe_process().find("CAP_NET_BIND_SERVICE only") == std::string::npos; }},
              });
            }),
            "port below 1024; ");
}

TEST_F(Privileges, UnusedSystemCallsAreRefused) {
  const std::string results = in_child([] {
    std::atomic<bool> stop{false};
    std::string other_thread;
    std::thread other([&] {
      while (!stop) usleep(1000);
      other_thread = unshare(CLONE_NEWUSER) != 0 && errno == EPERM ? "" : "unshare in a thread that began before; ";
    });
    // A namespace of its own gives even an unprivileged process the rights of root in it, where the system allows that.
    std::string found = drop(/*keeps_low_ports=*/false);
    found += std::string(refuse_unused_system_calls().message());
    stop = true;
    other.join();
    const auto refuses = [](long number) { return syscall(number, 0, 0, 0, 0, 0) == -1 && errno == EPERM; };
    found += other_thread +
             try_all({
                 {"user namespace", [] { return unshare(CLONE_NEWUSER) == 0; }},
                 {"namespace by clone", [] { return syscall(SYS_clone, CLONE_NEWUSER | SIGCHLD, 0, 0, 0, 0) >= 0; }},
                 {"mount", [&] { return !refuses(SYS_mount); }},
                 {"fsopen", [&] { return !refuses(SYS_fsopen); }},
                 {"process_vm_readv", [&] { return !refuses(SYS_process_vm_readv); }},
                 {"bpf", [&] { return !refuses(SYS_bpf); }},
                 {"perf_event_open", [&] { return !refuses(SYS_perf_event_open); }},
                 {"userfaultfd", [&] { return !refuses(SYS_userfaultfd); }},
                 {"keyctl", [&] { return !refuses(SYS_keyctl); }},
                 {"kexec", [&] { return !refuses(SYS_kexec_load); }},
                 {"socket of another family",
                  [] { return socket(AF_ALG, SOCK_SEQPACKET, 0) >= 0 || errno != EAFNOSUPPORT; }},
                 {"packet socket", [] { return socket(AF_PACKET, SOCK_RAW, 0) >= 0 || errno != EAFNOSUPPORT; }},
             });
    // What the program does need.
    for (const int family : {AF_UNIX, AF_INET, AF_INET6, AF_NETLINK}) {
      const int fd = socket(family, family == AF_NETLINK ? SOCK_RAW : SOCK_STREAM, 0);
      if (fd < 0 && errno != EAFNOSUPPORT) absl::StrAppend(&found, "no socket of family ", family, "; ");
      close(fd);
    }
    bool ran = false;
    std::thread([&ran] { ran = true; }).join();
    if (!ran) found += "no threads; ";
    if (system("exit 7") != 7 << 8) found += "no programs; ";
    return found;
  });
  EXPECT_EQ(results, "");
}

// A program that belongs to root and has the bit set-user-ID does not help.
TEST_F(Privileges, ProgramsGetNoNewOnes) {
  std::string folder = absl::StrCat(testing::TempDir(), "/sluice-setuid-XXXXXX");
  ASSERT_TRUE(mkdtemp(folder.data()));
  ASSERT_EQ(chmod(folder.c_str(), 0755), 0);
  const std::string program = folder + "/id";
  std::filesystem::copy_file(std::filesystem::canonical("/usr/bin/id"), program);
  ASSERT_EQ(chmod(program.c_str(), 04755), 0);
  const auto run = [&program](bool forbidden) {
    return in_child([&program, forbidden] {
      if (forbidden) forbid_new_privileges();
      (void)!setgroups(0, nullptr);
      (void)!setgid(65534);
      (void)!setuid(65534);
      FILE* const output = popen((program + " -u").c_str(), "r");
      char text[64] = "";
      (void)!fgets(text, sizeof text, output);
      pclose(output);
      return std::string(text);
    });
  };
  EXPECT_EQ(run(/*forbidden=*/true), "65534\n");
  if (run(/*forbidden=*/false) != "0\n") GTEST_LOG_(INFO) << "the folder is mounted with nosuid";
  std::filesystem::remove_all(folder);
}

TEST_F(Privileges, AllThreadsChange) {
  EXPECT_EQ(in_child([] {
              std::atomic<bool> stop{false};
              std::thread other([&stop] {
                while (!stop) usleep(1000);
              });
              const std::string error = drop(/*keeps_low_ports=*/true);
              std::string found = error;
              for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
                const std::string status = task.path().string() + "/status";
                const bool own = task.path().filename() == std::to_string(gettid());
                const absl::StatusOr<ProcessIds> ids = find_process_ids(user_of(kUser));
                const std::string uid = absl::StrCat(ids->uid),
                                  four = absl::StrCat(uid, "\t", uid, "\t", uid, "\t", uid);
                if (lines_of(status, "Uid:") != four) absl::StrAppend(&found, "uid ", lines_of(status, "Uid:"), "; ");
                const std::string wanted = own ? "0000000000000400" : "0000000000000000";
                if (lines_of(status, "CapPrm:") != wanted) absl::StrAppend(&found, lines_of(status, "CapPrm:"), "; ");
              }
              stop = true;
              other.join();
              return found;
            }),
            "");
}

TEST_F(Privileges, NewLogFilesBelongToTheUserAndOthersStay) {
  std::string folder = absl::StrCat(testing::TempDir(), "/sluice-logs-XXXXXX");
  ASSERT_TRUE(mkdtemp(folder.data()));
  std::ofstream(folder + "/old.log") << "x";
  std::filesystem::create_symlink(folder + "/elsewhere", folder + "/link.log");
  const absl::StatusOr<ProcessIds> ids = find_process_ids(user_of(kUser));
  struct stat status;
  for (const char* name : {"new.log", "old.log", "link.log"}) {
    make_log_files(with_address("127.0.0.1:1", absl::StrCat("log: { to: ", folder, "/", name, " }\n")), *ids);
  }
  ASSERT_EQ(stat((folder + "/new.log").c_str(), &status), 0);
  EXPECT_EQ(status.st_uid, ids->uid);
  ASSERT_EQ(stat((folder + "/old.log").c_str(), &status), 0);
  EXPECT_EQ(status.st_uid, 0u);
  EXPECT_NE(stat((folder + "/elsewhere").c_str(), &status), 0) << "a link is not followed";
  std::filesystem::remove_all(folder);
}

TEST_F(Privileges, NoCoreDumps) {
  const auto after = [](const char* key) {
    return in_child([key] {
      limit_core_dumps(with_address("127.0.0.1:1", key));
      rlimit limit{};
      getrlimit(RLIMIT_CORE, &limit);
      return absl::StrCat(prctl(PR_GET_DUMPABLE, 0, 0, 0, 0), limit.rlim_max == 0 ? " none" : "");
    });
  };
  EXPECT_EQ(after("core_dumps: off"), "0 none");
  EXPECT_EQ(after("user: nobody"), "0 none");
  EXPECT_THAT(after("workers: 1"), HasSubstr("1"));
  EXPECT_THAT(after("user: nobody\ncore_dumps: on"), HasSubstr("1"));
}

TEST(ProcessUser, ReadsNamesAndNumbers) {
  EXPECT_EQ(user_of("www-data").name(), "www-data");
  EXPECT_EQ(user_of("a:b").group(), "b");
  EXPECT_EQ(user_of("101:102").text(), "101:102");
  for (const char* text : {"", ":", "a:", ":b", "a:b:c", "a b", "-a"}) {
    EXPECT_THAT(config::ProcessUser::parse(text).status().message(), HasSubstr("expected a user")) << text;
  }
}

TEST(ProcessUser, IsLookedUp) {
  EXPECT_THAT(find_process_ids(user_of("no-such-user-1")).status().message(), HasSubstr("no user \"no-such-user-1\""));
  EXPECT_THAT(find_process_ids(user_of("nobody:no-such-1")).status().message(), HasSubstr("no group \"no-such-1\""));
  EXPECT_THAT(find_process_ids(user_of("root")).status().message(), HasSubstr("is root"));
  EXPECT_THAT(find_process_ids(user_of("0:5")).status().message(), HasSubstr("is root"));
  EXPECT_THAT(find_process_ids(user_of("4000123")).status().message(), HasSubstr("group must be given"));
  const absl::StatusOr<ProcessIds> numbers = find_process_ids(user_of("4000123:4000124"));
  ASSERT_TRUE(numbers.ok()) << numbers.status();
  EXPECT_EQ(numbers->uid, 4000123u);
  EXPECT_EQ(numbers->gid, 4000124u);
}

TEST(ProcessUser, OnlyRootCanChange) {
  EXPECT_EQ(may_become({.user = "x", .uid = geteuid(), .gid = getegid()}), absl::OkStatus());
  if (geteuid() == 0) return;
  EXPECT_THAT(may_become({.user = "x", .uid = 4000123, .gid = 1}).message(), HasSubstr("only root can change"));
}

TEST(LowPorts, AreThoseOfListenersAndTheAdmin) {
  int first = 1024;
  std::ifstream("/proc/sys/net/ipv4/ip_unprivileged_port_start") >> first;
  if (first != 1024) GTEST_SKIP() << "net.ipv4.ip_unprivileged_port_start is not the default";
  EXPECT_TRUE(has_low_port(with_address("0.0.0.0:443")));
  EXPECT_TRUE(has_low_port(with_address("[::]:1023")));
  EXPECT_FALSE(has_low_port(with_address("0.0.0.0:1024")));
  EXPECT_FALSE(has_low_port(with_address("0.0.0.0:0")));
  EXPECT_FALSE(has_low_port(with_address("unix:/run/x")));
  EXPECT_TRUE(has_low_port(with_address("0.0.0.0:8080", "admin: { address: 127.0.0.1:90 }")));
}

}  // namespace
}  // namespace sluice
