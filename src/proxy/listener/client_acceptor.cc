#include "proxy/listener/client_acceptor.h"

#include <malloc.h>
#include <pthread.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <utility>

#include "sluice/internal/check.h"

namespace sluice {

namespace {

// When a peak of at least this many sessions has halved, the heap's free pages go back to the system.
constexpr size_t kCrowd = 1024;

// While memory is short, this many sessions are reviewed at a time, with this pause between. 9,000 sessions take 180
// ms, and each step holds up the loop for some microseconds.
constexpr int kReviewedSessions = 1000;
constexpr uint64_t kReviewPauseMs = 20;

// The most sessions that one step ends. Each may have a hundred requests, which end with it.
constexpr int kShedSessions = 16;

}  // namespace

ClientAcceptor::ClientAcceptor(Context context, std::unique_ptr<SessionFactory> factory, int listen_fd, bool shared)
    : context_(context),
      listener_(context.worker.ring(), context.worker.timers(), *this, listen_fd, shared),
      factory_(std::move(factory)),
      review_timer_([](void* self) { static_cast<ClientAcceptor*>(self)->review_some(); }, this) {}

ClientAcceptor::~ClientAcceptor() { SLUICE_CHECK(sessions_ == nullptr); }

void ClientAcceptor::on_accepted(Listener&, int fd) {
  counters().accepted.add();
  if (!context_.global_connections.enter()) return refuse(fd, Refusal::kGlobal);
  if (!context_.listener.connections.enter()) {
    context_.global_connections.leave();
    return refuse(fd, Refusal::kListener);
  }
  factory_->start(*this, fd);
  listener_.review();
}

// Accepting must not use up the descriptors that accepted connections need for their upstream side.
Listener::Accepting ClientAcceptor::accepting() {
  const uint64_t active = context_.global_connections.active();
  if (active >= context_.descriptor_room) {
    if (!std::exchange(no_room_, true)) counters().accept_pauses.add();
    return Listener::Accepting::kNone;
  }
  no_room_ = false;
  // One multishot accept could take the whole backlog at once; it counts twice, as a margin. The other listeners and
  // workers could do the same before any of them checks again.
  const uint64_t waiting = uint64_t{context_.listener.config.backlog} * 2 + context_.other_backlogs;
  return active + waiting >= context_.descriptor_room ? Listener::Accepting::kOne : Listener::Accepting::kMany;
}

// A reset leaves no lingering socket on either side.
void ClientAcceptor::refuse(int fd, Refusal reason) {
  counters().refused[static_cast<size_t>(reason)].add();
  const linger reset{1, 0};
  setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
  ::close(fd);
}

void ClientAcceptor::on_accept_paused(Listener&, int) { counters().accept_pauses.add(); }

void ClientAcceptor::joined(Session& session) {
  session.previous = nullptr;
  session.next = sessions_;
  if (sessions_) sessions_->previous = &session;
  sessions_ = &session;
  session_peak_ = std::max(session_peak_, ++session_count_);
}

void ClientAcceptor::left(Session& session) {
  (session.previous ? session.previous->next : sessions_) = session.next;
  if (session.next) session.next->previous = session.previous;
  if (next_reviewed_ == &session) next_reviewed_ = session.next;
  context_.listener.connections.leave();
  context_.global_connections.leave();
  // Two descriptors are free now.
  listener_.resume();
  if (--session_count_ < session_peak_ / 2 && session_peak_ >= kCrowd) trim_heap();
}

// malloc keeps the memory that sessions have freed in its arenas indefinitely unless it is trimmed. malloc_trim() walks
// the heaps of all threads and returns their free pages, which takes time in proportion to their size: tens of
// milliseconds after a crowd, during which a loop would serve nobody. So a separate thread does it, at most one at a
// time. It holds one arena's lock at a time, so a worker that allocates in the meantime waits only for its own arena.
// If no thread can be created, the heap stays as it is.
void ClientAcceptor::trim_heap() {
  session_peak_ = session_count_;
  static std::atomic<bool> in_progress{false};
  if (in_progress.exchange(true)) return;
  const auto trim = [](void*) -> void* {
    malloc_trim(0);
    in_progress.store(false);
    return nullptr;
  };
  pthread_t thread;
  if (pthread_create(&thread, nullptr, trim, nullptr) == 0) {
    pthread_detach(thread);
  } else {
    in_progress.store(false);
  }
}

void ClientAcceptor::stop_accepting() {
  listener_.stop();
  factory_->stop();
}

void ClientAcceptor::drain() {
  for (Session* session = sessions_; session != nullptr;) std::exchange(session, session->next)->drain();
}

void ClientAcceptor::shut_down() {
  for (Session* session = sessions_; session != nullptr;) std::exchange(session, session->next)->shut_down();
}

// ---- Memory ----

void ClientAcceptor::review_memory() {
  if (!review_timer_.armed()) worker().timers().arm(review_timer_, worker().now_ms() + kReviewPauseMs);
}

// A round visits all sessions, in as many turns of the loop as it needs.
void ClientAcceptor::review_some() {
  if (!source_memory_) source_memory_ = std::make_unique<SourceMemory>();
  if (!next_reviewed_) {
    source_memory_->begin_round();
    next_reviewed_ = sessions_;
  }
  sheds_left_ = kShedSessions;
  for (int i = 0; i < kReviewedSessions && next_reviewed_; ++i) {
    Session& session = *std::exchange(next_reviewed_, next_reviewed_->next);
    needs_another_round_ |= session.review_memory();
  }
  if (next_reviewed_) return review_memory();
  const bool is_short = std::exchange(needs_another_round_, false) || worker().in_reserve();
  if (sessions_ && is_short) return review_memory();
  source_memory_.reset();
}

void ClientAcceptor::update_counters() { factory_->update_counters(); }

}  // namespace sluice
