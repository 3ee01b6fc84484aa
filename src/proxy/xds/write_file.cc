#include "proxy/xds/write_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>

#include "absl/strings/str_cat.h"

namespace sluice::xds {
namespace {

absl::Status failure(const std::string& path, int error) {
  return absl::ErrnoToStatus(error, absl::StrCat(path, ": cannot be written"));
}

bool write_all(int fd, std::string_view contents) {
  while (!contents.empty()) {
    const ssize_t written = write(fd, contents.data(), contents.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return false;
    contents.remove_prefix(static_cast<size_t>(written));
  }
  return fsync(fd) == 0;
}

}  // namespace

absl::Status write_file(const std::string& path, std::string_view contents) {
  const std::filesystem::path folder = std::filesystem::path(path).parent_path();
  std::error_code error;
  if (!folder.empty() && !std::filesystem::exists(folder, error)) {
    std::filesystem::create_directories(folder, error);
    if (!error) std::filesystem::permissions(folder, std::filesystem::perms::owner_all, error);
    if (error) return failure(folder.string(), error.value());
  }
  const std::string next = absl::StrCat(path, ".new");
  const int fd = open(next.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  if (fd < 0) return failure(next, errno);
  const bool written = write_all(fd, contents);
  const int why = errno;
  close(fd);
  if (!written) {
    unlink(next.c_str());
    return failure(next, why);
  }
  return rename(next.c_str(), path.c_str()) == 0 ? absl::OkStatus() : failure(path, errno);
}

}  // namespace sluice::xds
