#include "net/readable_wait.h"

#include <poll.h>

#include "sluice/internal/check.h"

namespace sluice {

ReadableWait::~ReadableWait() { SLUICE_CHECK(!waiting_); }

void ReadableWait::begin(int fd) {
  SLUICE_DCHECK(!waiting_);
  waiting_ = true;
  ring_.wait_input(this, fd);
}

void ReadableWait::cancel() {
  SLUICE_DCHECK(waiting_);
  ring_.cancel_wait_input(this);
}

void ReadableWait::complete(Completion completion) {
  waiting_ = false;
  constexpr int kEnds = POLLRDHUP | POLLHUP | POLLERR | POLLNVAL;
  owner_.on_readable(/*ended=*/completion.res < 0 || (completion.res & kEnds) != 0);
}

}  // namespace sluice
