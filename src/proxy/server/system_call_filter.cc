#include "proxy/server/system_call_filter.h"

#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <bit>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <vector>

#include "absl/strings/str_cat.h"

namespace sluice {

namespace {

#if defined(__x86_64__)
constexpr uint32_t kArchitecture = AUDIT_ARCH_X86_64;
#elif defined(__aarch64__)
constexpr uint32_t kArchitecture = AUDIT_ARCH_AARCH64;
#else
constexpr uint32_t kArchitecture = 0;  // Not known here: no filter.
#endif
// On x86-64, calls of the x32 ABI have this bit.
constexpr uint32_t kOtherAbi = 0x40000000;

constexpr long kRefused[] = {
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
    SYS_ptrace,  // LeakSanitizer needs it.
#endif
    // The memory and the descriptors of other processes.
    SYS_process_vm_readv,
    SYS_process_vm_writev,
    SYS_kcmp,
    SYS_pidfd_getfd,
    // Namespaces, mounts, roots.
    SYS_unshare,
    SYS_setns,
    SYS_mount,
    SYS_umount2,
    SYS_pivot_root,
    SYS_chroot,
    SYS_open_tree,
    SYS_move_mount,
    SYS_fsopen,
    SYS_fsconfig,
    SYS_fsmount,
    SYS_fspick,
    SYS_mount_setattr,
    SYS_open_by_handle_at,
    SYS_mknodat,
    SYS_swapon,
    SYS_swapoff,
    SYS_quotactl,
    // Code in the kernel, and what has often been a way into it.
    SYS_bpf,
    SYS_perf_event_open,
    SYS_userfaultfd,
    SYS_init_module,
    SYS_finit_module,
    SYS_delete_module,
    SYS_kexec_load,
    SYS_keyctl,
    SYS_add_key,
    SYS_request_key,
    SYS_fanotify_init,
    // The machine.
    SYS_reboot,
    SYS_settimeofday,
    SYS_clock_settime,
    SYS_clock_adjtime,
    SYS_adjtimex,
    SYS_sethostname,
    SYS_setdomainname,
    SYS_syslog,
    SYS_acct,
    SYS_vhangup,
#if defined(__x86_64__)
    SYS_mknod,
    SYS_iopl,
    SYS_ioperm,
    SYS_kexec_file_load,
    SYS_modify_ldt,
#endif
};

// The system calls of a process that serves, and of the C library and BoringSSL in it. Each is in
// packaging/docker/seccomp.json as well, which also has those of a start and of an upgrade.
constexpr long kServing[] = {
    // Files and descriptors.
    SYS_openat,
    SYS_close,
    SYS_close_range,
    SYS_read,
    SYS_pread64,
    SYS_readv,
    SYS_preadv,
    SYS_preadv2,
    SYS_write,
    SYS_pwrite64,
    SYS_writev,
    SYS_pwritev,
    SYS_pwritev2,
    SYS_lseek,
    SYS_fcntl,
    SYS_ioctl,
    SYS_dup,
    SYS_dup3,
    SYS_pipe2,
    SYS_fstat,
    SYS_newfstatat,
    SYS_statx,
    SYS_statfs,
    SYS_fstatfs,
    SYS_faccessat,
    SYS_faccessat2,
    SYS_readlinkat,
    SYS_getdents64,
    SYS_getcwd,
    SYS_fchmod,
    SYS_fsync,
    SYS_fdatasync,
    SYS_ftruncate,
    SYS_fallocate,
    SYS_fadvise64,
    SYS_unlinkat,
    SYS_inotify_init1,
    SYS_inotify_add_watch,
    SYS_inotify_rm_watch,
    // Sockets and rings; socket itself is below.
    SYS_io_uring_setup,
    SYS_io_uring_enter,
    SYS_io_uring_register,
    SYS_socketpair,
    SYS_bind,
    SYS_listen,
    SYS_accept4,
    SYS_connect,
    SYS_shutdown,
    SYS_getsockname,
    SYS_getpeername,
    SYS_getsockopt,
    SYS_setsockopt,
    SYS_sendto,
    SYS_sendmsg,
    SYS_sendmmsg,
    SYS_recvfrom,
    SYS_recvmsg,
    SYS_recvmmsg,
    // Waiting and time.
    SYS_ppoll,
    SYS_pselect6,
    SYS_epoll_create1,
    SYS_epoll_ctl,
    SYS_epoll_pwait,
    SYS_eventfd2,
    SYS_signalfd4,
    SYS_timerfd_create,
    SYS_timerfd_settime,
    SYS_timerfd_gettime,
    SYS_timer_create,
    SYS_timer_settime,
    SYS_timer_delete,
    SYS_clock_gettime,
    SYS_clock_getres,
    SYS_clock_nanosleep,
    SYS_nanosleep,
    SYS_gettimeofday,
    SYS_restart_syscall,
    // Memory.
    SYS_brk,
    SYS_mmap,
    SYS_munmap,
    SYS_mremap,
    SYS_mprotect,
    SYS_madvise,
    SYS_mlock,
    SYS_munlock,
    SYS_membarrier,
    // Threads; clone is below.
    SYS_futex,
    SYS_set_robust_list,
    SYS_get_robust_list,
    SYS_rseq,
    SYS_set_tid_address,
    SYS_exit,
    SYS_exit_group,
    SYS_tgkill,
    SYS_sched_yield,
    SYS_sched_getaffinity,
    SYS_sched_setaffinity,
    SYS_sched_getparam,
    SYS_sched_getscheduler,
    SYS_getcpu,
    SYS_rt_sigaction,
    SYS_rt_sigprocmask,
    SYS_rt_sigpending,
    SYS_rt_sigtimedwait,
    SYS_rt_sigreturn,
    SYS_sigaltstack,
    // The process and the machine.
    SYS_getpid,
    SYS_getppid,
    SYS_gettid,
    SYS_getuid,
    SYS_geteuid,
    SYS_getgid,
    SYS_getegid,
    SYS_getgroups,
    SYS_capget,
    SYS_prctl,
    SYS_prlimit64,
    SYS_getrlimit,
    SYS_getrusage,
    SYS_times,
    SYS_sysinfo,
    SYS_uname,
    SYS_getrandom,
    SYS_umask,
#if defined(__x86_64__)
    // Older forms of calls above.
    SYS_open,
    SYS_stat,
    SYS_lstat,
    SYS_access,
    SYS_readlink,
    SYS_unlink,
    SYS_chmod,
    SYS_dup2,
    SYS_pipe,
    SYS_poll,
    SYS_select,
    SYS_epoll_wait,
    SYS_accept,
    SYS_arch_prctl,
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    // For the report of leaks.
    SYS_ptrace,
    SYS_wait4,
    SYS_kill,
#endif
};

// The first call that is newer than all of the above: cachestat, Linux 6.5.
constexpr uint32_t kFirstUnknown = 451;

constexpr uint32_t kNamespaces =
    CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNET;

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr uint32_t kThread = CLONE_VM;  // The report of leaks is made by a process with the same memory.
#else
constexpr uint32_t kThread = CLONE_THREAD;
#endif

constexpr uint32_t kFamilies[] = {AF_UNIX, AF_INET, AF_INET6, AF_NETLINK};

// A program for the kernel's filter. Each step is complete in itself: it returns, or goes on with the next one.
class Program {
 public:
  void load(size_t offset) { add(BPF_LD | BPF_W | BPF_ABS, static_cast<uint32_t>(offset)); }
  // Of an argument of a call, the lower half: all that matters here fits.
  void load_argument(size_t number) {
    constexpr size_t kLow = std::endian::native == std::endian::little ? 0 : sizeof(uint32_t);
    load(offsetof(seccomp_data, args) + number * sizeof(uint64_t) + kLow);
  }
  void load_number() { load(offsetof(seccomp_data, nr)); }
  void if_equal(uint32_t value, uint32_t result) { if_(BPF_JEQ, value, result); }
  void if_not_equal(uint32_t value, uint32_t result) {
    jump(BPF_JEQ, value, 1, 0);
    give(result);
  }
  void if_any_bit(uint32_t bits, uint32_t result) { if_(BPF_JSET, bits, result); }
  void if_no_bit(uint32_t bits, uint32_t result) {
    jump(BPF_JSET, bits, 1, 0);
    give(result);
  }
  void if_at_least(uint32_t value, uint32_t result) { if_(BPF_JGE, value, result); }
  // The next `steps` instructions are for this value only.
  void skip_unless_equal(uint32_t value, size_t steps) { jump(BPF_JEQ, value, 0, static_cast<uint8_t>(steps)); }
  void give(uint32_t result) { add(BPF_RET | BPF_K, result); }

  sock_fprog program() { return {static_cast<unsigned short>(steps_.size()), steps_.data()}; }

 private:
  void add(int code, uint32_t value) { steps_.push_back({static_cast<uint16_t>(code), 0, 0, value}); }
  void jump(int kind, uint32_t value, uint8_t if_true, uint8_t if_false) {
    steps_.push_back({static_cast<uint16_t>(BPF_JMP | kind | BPF_K), if_true, if_false, value});
  }
  void if_(int kind, uint32_t value, uint32_t result) {
    jump(kind, value, 0, 1);
    give(result);
  }

  std::vector<sock_filter> steps_;
};

constexpr uint32_t failing(int error) { return SECCOMP_RET_ERRNO | static_cast<uint32_t>(error); }

void begin(Program& program) {
  program.load(offsetof(seccomp_data, arch));
  program.if_not_equal(kArchitecture, failing(EPERM));
  program.load_number();
  program.if_at_least(kOtherAbi, failing(EPERM));
  // Its flags are in memory, which a filter cannot read. Libraries use clone instead, if it is said not to exist.
  program.if_equal(SYS_clone3, failing(ENOSYS));
}

void allow_families(Program& program) {
  program.skip_unless_equal(SYS_socket, 2 + 2 * std::size(kFamilies));
  program.load_argument(0);
  for (const uint32_t family : kFamilies) program.if_equal(family, SECCOMP_RET_ALLOW);
  program.give(failing(EAFNOSUPPORT));
}

Program without_refused() {
  Program program;
  begin(program);
  for (const long call : kRefused) program.if_equal(static_cast<uint32_t>(call), failing(EPERM));
  program.skip_unless_equal(SYS_clone, 4);
  program.load_argument(0);
  program.if_any_bit(kNamespaces, failing(EPERM));
  program.give(SECCOMP_RET_ALLOW);
  allow_families(program);
  program.give(SECCOMP_RET_ALLOW);
  return program;
}

Program only_serving() {
  Program program;
  begin(program);
  for (const long call : kServing) program.if_equal(static_cast<uint32_t>(call), SECCOMP_RET_ALLOW);
  program.skip_unless_equal(SYS_clone, 6);
  program.load_argument(0);
  program.if_any_bit(kNamespaces, failing(EPERM));
  program.if_no_bit(kThread, failing(EPERM));
  program.give(SECCOMP_RET_ALLOW);
  allow_families(program);
  program.if_at_least(kFirstUnknown, failing(ENOSYS));
  program.give(failing(EPERM));
  return program;
}

absl::Status install(Program program) {
  if (kArchitecture == 0) return absl::UnimplementedError("the numbers of this processor's system calls are not known");
  const sock_fprog compiled = program.program();
  const long result =
      syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC | SECCOMP_FILTER_FLAG_LOG, &compiled);
  if (result == 0) return absl::OkStatus();
  if (result > 0) return absl::InternalError(absl::StrCat("thread ", result, " has a filter of its own"));
  return absl::ErrnoToStatus(errno, "seccomp");
}

}  // namespace

absl::Status refuse_unused_system_calls() { return install(without_refused()); }

absl::Status allow_used_system_calls() { return install(only_serving()); }

}  // namespace sluice
