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

constexpr uint32_t kNamespaces =
    CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNET;

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

Program make_program() {
  Program program;
  program.load(offsetof(seccomp_data, arch));
  program.if_not_equal(kArchitecture, failing(EPERM));
  program.load_number();
  program.if_at_least(kOtherAbi, failing(EPERM));
  for (const long call : kRefused) program.if_equal(static_cast<uint32_t>(call), failing(EPERM));
  // Its flags are in memory, which a filter cannot read. Libraries use clone instead, if it is said not to exist.
  program.if_equal(SYS_clone3, failing(ENOSYS));
  program.skip_unless_equal(SYS_clone, 4);
  program.load_argument(0);
  program.if_any_bit(kNamespaces, failing(EPERM));
  program.give(SECCOMP_RET_ALLOW);
  program.skip_unless_equal(SYS_socket, 2 + 2 * std::size(kFamilies));
  program.load_argument(0);
  for (const uint32_t family : kFamilies) program.if_equal(family, SECCOMP_RET_ALLOW);
  program.give(failing(EAFNOSUPPORT));
  program.give(SECCOMP_RET_ALLOW);
  return program;
}

}  // namespace

absl::Status refuse_unused_system_calls() {
  if (kArchitecture == 0) return absl::UnimplementedError("the numbers of this processor's system calls are not known");
  Program program = make_program();
  const sock_fprog compiled = program.program();
  const long result =
      syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC | SECCOMP_FILTER_FLAG_LOG, &compiled);
  if (result == 0) return absl::OkStatus();
  if (result > 0) return absl::InternalError(absl::StrCat("thread ", result, " has a filter of its own"));
  return absl::ErrnoToStatus(errno, "seccomp");
}

}  // namespace sluice
