// What a process is told that may not use io_uring. test/e2e/kernel_test.py has real filters.
#include "net/io_uring_access.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <string>

namespace sluice {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

std::string message(int error, const IoUringRestrictions& restrictions) {
  return std::string(io_uring_error("io_uring_setup", error, restrictions).message());
}

TEST(IoUringAccess, NamesTheFilter) {
  for (const int error : {EPERM, EACCES, ENOSYS}) {
    EXPECT_THAT(message(error, {.disabled = "0", .has_filter = true}),
                HasSubstr("a seccomp filter forbids io_uring_setup: allow"));
  }
  EXPECT_THAT(message(EPERM, {.disabled = "", .has_filter = true}), HasSubstr("a seccomp filter forbids"));
}

TEST(IoUringAccess, NamesTheSysctl) {
  EXPECT_THAT(message(EPERM, {.disabled = "1"}),
              AllOf(HasSubstr("kernel.io_uring_disabled is 1: only the group"), Not(HasSubstr("seccomp"))));
  EXPECT_THAT(message(EPERM, {.disabled = "2"}),
              AllOf(HasSubstr("kernel.io_uring_disabled is 2: nobody"), Not(HasSubstr("seccomp"))));
  EXPECT_THAT(
      message(EPERM, {.disabled = "2", .has_filter = true}),
      AllOf(HasSubstr("is 2: nobody"), HasSubstr("a seccomp filter applies too, and may forbid io_uring_setup")));
}

TEST(IoUringAccess, NamesTheKernel) {
  EXPECT_THAT(message(ENOSYS, {.disabled = ""}), HasSubstr("this kernel has no io_uring"));
  EXPECT_THAT(message(ENOSYS, {.disabled = "", .has_filter = true}),
              AllOf(HasSubstr("this kernel has no io_uring"), HasSubstr("seccomp filter")));
  EXPECT_THAT(message(ENOSYS, {.disabled = "0"}), HasSubstr("this kernel has no io_uring"));
  EXPECT_THAT(message(EPERM, {.disabled = "0"}), HasSubstr("a security module"));
  EXPECT_THAT(message(EINVAL, {.disabled = "0"}), HasSubstr("Linux 6.6"));
  EXPECT_THAT(message(EMFILE, {.disabled = "0"}), HasSubstr("cannot set up io_uring: "));
}

TEST(IoUringAccess, IsThereInTests) { EXPECT_TRUE(check_io_uring_access().ok()) << check_io_uring_access(); }

}  // namespace
}  // namespace sluice
