// Defect: ThreadSanitizer did not see that a ring closes a descriptor. When another thread got a new descriptor of the
// same number from a ring, and closed that, it reported a race (WorkersTest.LimitsHoldAcrossWorkers, one run of 70).
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <memory>
#include <thread>

#include "net/ring.h"

namespace sluice {
namespace {

// The threads share an atomic variable whose operations are relaxed, so that the sanitizer sees no order between them:
// the order is that of the descriptors.
TEST(RingClose, AnotherThreadMayCloseTheNextDescriptorOfThatNumber) {
  std::atomic<int> closed = -1;
  std::thread other([&] {
    while (closed.load(std::memory_order_relaxed) < 0) std::this_thread::yield();
    const int fd = closed.load(std::memory_order_relaxed);
    // As with a connection that a ring accepted, the sanitizer does not see who made this descriptor.
    EXPECT_EQ(::syscall(SYS_dup3, STDERR_FILENO, fd, O_CLOEXEC), fd);
    EXPECT_EQ(::close(fd), 0);
  });
  const absl::StatusOr<std::unique_ptr<Ring>> ring = Ring::open({.submission_entries = 8, .completion_entries = 16});
  EXPECT_TRUE(ring.ok()) << ring.status();
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  EXPECT_GE(fd, 0);
  if (ring.ok()) {
    (*ring)->close(fd);
    while (::fcntl(fd, F_GETFD) >= 0) (*ring)->wait(1'000'000);
  }
  closed.store(fd, std::memory_order_relaxed);
  other.join();
}

}  // namespace
}  // namespace sluice
