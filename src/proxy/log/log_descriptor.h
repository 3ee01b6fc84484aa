// Opens the files and streams of logs, and writes to them without waiting.
#pragma once

#include <sys/types.h>
#include <sys/uio.h>

#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace sluice {

/// Opens a path for appending, and makes the file if there is none. `what` begins the error, which is for the user.
absl::StatusOr<int> open_log_path(const std::string& path, std::string_view what);

/// Whether two descriptors are of one file.
bool is_same_file(int a, int b);

/// Returns a new descriptor for the file that `own` refers to. If possible it has its own open file description, so
/// that O_NONBLOCK does not affect other processes that share `own`. Negative on failure.
int open_own(int own);

/// Like write(), but fails with EAGAIN instead of waiting. On anything but a regular file it writes at most PIPE_BUF
/// bytes.
ssize_t write_without_waiting(int fd, std::string_view piece);
/// The same for up to `count` parts, if `stream` is is_stream(fd). Precondition for a stream: at most PIPE_BUF bytes.
ssize_t write_without_waiting(int fd, bool stream, const iovec* parts, int count);

/// Whether a descriptor is of anything but a regular file.
bool is_stream(int fd);

/// The descriptor `fd`, or if it is negative, the error in errno with advice. `what` and `target` begin it.
absl::StatusOr<int> opened_log(int fd, const std::string& target, std::string_view what);

}  // namespace sluice
