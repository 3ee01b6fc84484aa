// A ring refuses what this program never does, so that whoever can write into a submission queue gets no further.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cerrno>
#include <functional>
#include <string>

#include "net/ring.h"

namespace sluice {
namespace {

class RingRestrictions : public testing::Test {
 protected:
  void SetUp() override {
    auto opened = Ring::open({.submission_entries = 8, .completion_entries = 16});
    ASSERT_TRUE(opened.ok()) << opened.status();
    ring_ = *std::move(opened);
  }

  // The result of an operation that is written into the queue past the functions of Ring.
  int result_of(const std::function<void(io_uring_sqe*)>& prepare) {
    io_uring_sqe* const entry = io_uring_get_sqe(ring_->raw());
    prepare(entry);
    entry->user_data = 0;
    int result = 1;
    ring_->wait(1'000'000'000);
    ring_->reap([&](Op, void*, Completion completion) { result = completion.res; });
    return result;
  }

  std::unique_ptr<Ring> ring_;
};

TEST_F(RingRestrictions, RefuseOtherOperations) {
  struct statx status{};
  const char* const arguments[] = {"x"};
  EXPECT_EQ(result_of([](io_uring_sqe* e) { io_uring_prep_openat(e, AT_FDCWD, "/etc/passwd", O_RDONLY, 0); }), -EACCES);
  EXPECT_EQ(result_of([&](io_uring_sqe* e) { io_uring_prep_statx(e, AT_FDCWD, "/", 0, 0, &status); }), -EACCES);
  EXPECT_EQ(result_of([](io_uring_sqe* e) { io_uring_prep_socket(e, AF_INET, SOCK_STREAM, 0, 0); }), -EACCES);
  EXPECT_EQ(result_of([](io_uring_sqe* e) { io_uring_prep_unlinkat(e, AT_FDCWD, "/no-such-file", 0); }), -EACCES);
  EXPECT_EQ(result_of([&](io_uring_sqe* e) { io_uring_prep_write(e, 2, arguments[0], 0, 0); }), -EACCES);
  EXPECT_EQ(result_of([](io_uring_sqe* e) { io_uring_prep_nop(e); }), 0) << "what is allowed goes on";
}

TEST_F(RingRestrictions, RefuseOtherFlags) {
  EXPECT_EQ(result_of([](io_uring_sqe* e) {
              io_uring_prep_nop(e);
              e->flags |= IOSQE_ASYNC;
            }),
            -EACCES);
}

TEST_F(RingRestrictions, RefuseOtherRegistrations) {
  const int files[] = {0};
  EXPECT_EQ(io_uring_register_files(ring_->raw(), files, 1), -EACCES);
  EXPECT_EQ(io_uring_register_personality(ring_->raw()), -EACCES);
  EXPECT_LT(io_uring_register_restrictions(ring_->raw(), nullptr, 0), 0) << "nor can they be lifted";
}

}  // namespace
}  // namespace sluice
