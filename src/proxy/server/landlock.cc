#include "proxy/server/landlock.h"

#include <fcntl.h>
#include <linux/landlock.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"

namespace sluice {

namespace {

// What newer kernels know, which the headers of the machine that compiles this may not: by the version of the ABI
// (landlock(7)).
constexpr uint64_t kRefer = 1 << 13;        // 2, Linux 5.19
constexpr uint64_t kTruncate = 1 << 14;     // 3, Linux 6.2
constexpr uint64_t kIoctlDevice = 1 << 15;  // 5, Linux 6.10
constexpr uint64_t kScopeSignal = 1 << 1;   // 6, Linux 6.12

struct RulesetAttributes {
  uint64_t files;
  uint64_t network;  // From version 4 on.
  uint64_t scopes;   // From version 6 on.
};

constexpr uint64_t kReadFile = LANDLOCK_ACCESS_FS_READ_FILE;
constexpr uint64_t kRead = kReadFile | LANDLOCK_ACCESS_FS_READ_DIR;
constexpr uint64_t kWriteFile = kReadFile | LANDLOCK_ACCESS_FS_WRITE_FILE | kTruncate | kIoctlDevice;
constexpr uint64_t kWrite =
    kRead | kWriteFile | LANDLOCK_ACCESS_FS_MAKE_REG | LANDLOCK_ACCESS_FS_MAKE_SOCK | LANDLOCK_ACCESS_FS_REMOVE_FILE;

long version() { return syscall(SYS_landlock_create_ruleset, nullptr, size_t{0}, LANDLOCK_CREATE_RULESET_VERSION); }

uint64_t known_rights(long version) {
  uint64_t rights = (uint64_t{LANDLOCK_ACCESS_FS_MAKE_SYM} << 1) - 1;  // The last one of version 1.
  if (version >= 2) rights |= kRefer;
  if (version >= 3) rights |= kTruncate;
  if (version >= 5) rights |= kIoctlDevice;
  return rights;
}

absl::Status allow(int ruleset, const std::string& path, uint64_t folder_rights, uint64_t file_rights) {
  const int fd = open(path.c_str(), O_PATH | O_CLOEXEC);
  if (fd < 0) return absl::OkStatus();  // What it is needed for reports that.
  const absl::Cleanup close_it = [fd] { close(fd); };
  struct stat status{};
  const bool is_folder = fstat(fd, &status) == 0 && S_ISDIR(status.st_mode);
  landlock_path_beneath_attr rule{};
  rule.allowed_access = is_folder ? folder_rights : file_rights;
  rule.parent_fd = fd;
  if (syscall(SYS_landlock_add_rule, ruleset, LANDLOCK_RULE_PATH_BENEATH, &rule, 0U) == 0) return absl::OkStatus();
  return absl::ErrnoToStatus(errno, absl::StrCat("Landlock has no rule for ", path));
}

}  // namespace

absl::Status has_landlock() {
  if (version() >= 1) return absl::OkStatus();
  return absl::UnimplementedError(
      "this kernel has no Landlock, or a container refuses it: it takes Linux 5.13, with `landlock` in `lsm=`; or "
      "leave the key out");
}

absl::Status restrict_files(const AllowedFiles& allowed) {
  if (absl::Status has = has_landlock(); !has.ok()) return has;
  const long abi = version();
  const uint64_t known = known_rights(abi);
  const RulesetAttributes attributes{known, 0, abi >= 6 ? kScopeSignal : 0};
  // An older kernel takes the part of the structure that it knows.
  const size_t size = abi >= 6 ? sizeof attributes : sizeof attributes.files;
  const int ruleset = static_cast<int>(syscall(SYS_landlock_create_ruleset, &attributes, size, 0U));
  if (ruleset < 0) return absl::ErrnoToStatus(errno, "landlock_create_ruleset");
  const absl::Cleanup close_it = [ruleset] { close(ruleset); };
  for (const std::string& path : allowed.read) {
    if (absl::Status rule = allow(ruleset, path, kRead & known, kReadFile & known); !rule.ok()) return rule;
  }
  for (const std::string& path : allowed.write) {
    if (absl::Status rule = allow(ruleset, path, kWrite & known, kWriteFile & known); !rule.ok()) return rule;
  }
  if (syscall(SYS_landlock_restrict_self, ruleset, 0U) == 0) return absl::OkStatus();
  return absl::ErrnoToStatus(errno, "landlock_restrict_self");
}

}  // namespace sluice
