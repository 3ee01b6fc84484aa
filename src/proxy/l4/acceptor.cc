#include "proxy/l4/acceptor.h"

#include <sys/socket.h>
#include <unistd.h>

#include "pool/check.h"

namespace sluice {

L4Acceptor::L4Acceptor(Context context, int listen_fd, bool shared)
    : context_(context), listener_(context.worker, *this, listen_fd, shared) {}

L4Acceptor::~L4Acceptor() { SLUICE_CHECK(sessions_ == nullptr); }

void L4Acceptor::on_accepted(Listener&, int fd) {
  counters().accepted.add();
  if (!context_.global_connections.enter()) return refuse(fd, Refusal::kGlobal);
  if (!context_.listener.connections.enter()) {
    context_.global_connections.leave();
    return refuse(fd, Refusal::kListener);
  }
  L4Session::start(*this, fd);
}

// A reset costs neither side a lingering socket.
void L4Acceptor::refuse(int fd, Refusal reason) {
  counters().refused[static_cast<size_t>(reason)].add();
  const linger reset{1, 0};
  setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
  ::close(fd);
}

void L4Acceptor::on_accept_paused(Listener&, int) { counters().accept_pauses.add(); }

void L4Acceptor::joined(L4Session& session) {
  session.previous = nullptr;
  session.next = sessions_;
  if (sessions_) sessions_->previous = &session;
  sessions_ = &session;
}

void L4Acceptor::left(L4Session& session) {
  (session.previous ? session.previous->next : sessions_) = session.next;
  if (session.next) session.next->previous = session.previous;
  context_.listener.connections.leave();
  context_.global_connections.leave();
  // Two descriptors came free.
  listener_.resume();
}

void L4Acceptor::shut_down() {
  for (L4Session* session = sessions_; session != nullptr;) {
    L4Session* const next = session->next;
    session->shut_down();
    session = next;
  }
}

}  // namespace sluice
