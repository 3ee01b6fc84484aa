// Attempts of what a process must no longer be able to do, made from inside, in a child.
#pragma once

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>
#include <initializer_list>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"

namespace sluice {

/// What `run` returns in a child process. The child has no threads but its own.
inline std::string in_child(const std::function<std::string()>& run) {
  int ends[2];
  if (pipe(ends) != 0) return "no pipe";
  const pid_t child = fork();
  if (child == 0) {
    const std::string text = run();
    _exit(write(ends[1], text.data(), text.size()) == static_cast<ssize_t>(text.size()) ? 0 : 1);
  }
  close(ends[1]);
  std::string text;
  char piece[4096];
  for (ssize_t got; (got = read(ends[0], piece, sizeof piece)) > 0;) text.append(piece, static_cast<size_t>(got));
  close(ends[0]);
  waitpid(child, nullptr, 0);
  return text;
}

/// The names of the attempts that succeed.
inline std::string try_all(std::initializer_list<std::pair<const char*, std::function<bool()>>> attempts) {
  std::string succeeded;
  for (const auto& [name, attempt] : attempts) {
    if (attempt()) absl::StrAppend(&succeeded, name, "; ");
  }
  return succeeded;
}

inline bool can_open(const char* path, int flags) {
  const int fd = open(path, flags, 0600);
  if (fd >= 0) close(fd);
  return fd >= 0;
}

}  // namespace sluice
