#include "proxy/listener/client_acceptor.h"

#include <malloc.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "proxy/listener/costliest_sessions.h"
#include "proxy/listener/shared_address.h"
#include "proxy/log/run_log.h"
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

// Sessions that could not move to another process are visited again after this pause.
constexpr uint64_t kMoveOutPauseMs = 50;

// This many sessions are moved, drained or ended in one turn of the loop, whatever the number of acceptors: below a
// millisecond of work.
constexpr int kVisitedSessions = 250;

}  // namespace

ClientAcceptor::SocketListener::SocketListener(ClientAcceptor& acceptor, const ListenSocket& socket)
    : Listener(acceptor.worker().ring(), acceptor.worker().timers(), acceptor, socket.fd, socket.shared),
      family(socket.family) {}

ClientAcceptor::ClientAcceptor(Context context, std::unique_ptr<SessionFactory> factory,
                               const std::vector<ListenSocket>& sockets)
    : context_(std::move(context)),
      rate_limits_(rate_limits_named(context_.rate_limits, context_.listener->config->connection_rate_limits)),
      handshake_limits_(rate_limits_named(context_.rate_limits, context_.listener->config->handshake_rate_limits)),
      balance_(context_.listener->balance, context_.worker, *this),
      factory_(std::move(factory)),
      move_timer_([](void* self) { static_cast<ClientAcceptor*>(self)->move_out_some(); }, this),
      visit_task_([](void* self) { static_cast<ClientAcceptor*>(self)->visit_some(); }, this),
      review_timer_([](void* self) { static_cast<ClientAcceptor*>(self)->review_some(); }, this) {
  SLUICE_CHECK(!sockets.empty() || context_.shared);
  for (const ListenSocket& socket : sockets) listeners_.push_back(std::make_unique<SocketListener>(*this, socket));
}

ClientAcceptor::~ClientAcceptor() { SLUICE_CHECK(sessions_ == nullptr); }

void ClientAcceptor::start() {
  balance_.join();
  for (auto& listener : listeners_) listener->start();
}

bool ClientAcceptor::idle() const {
  return sessions_ == nullptr && factory_->idle() && balance_.idle() &&
         std::all_of(listeners_.begin(), listeners_.end(), [](const auto& each) { return each->stopped(); });
}

void ClientAcceptor::on_accepted(Listener& listener, int fd) {
  const ConnectionBalance::Accepted connection{fd, static_cast<SocketListener&>(listener).family};
  // Where listeners share the address, the one that is chosen counts the connection.
  const bool chooses = context_.shared != nullptr;
  std::optional<Refusal> refusal = shut_down_ ? std::nullopt : refusal_of(fd);
  if (chooses && !shut_down_ && !refusal && !context_.listener->limits->choices.enter()) {
    context_.global_connections.leave();
    refusal = Refusal::kListener;
  }
  if (!chooses || refusal || shut_down_) counters().accepted.add();
  if (shut_down_) {  // The kernel had accepted it before accepting stopped.
    return close_unused(fd);
  }
  if (refusal) return refuse(fd, *refusal);
  if (chooses) {
    context_.shared->choose(*this, fd, connection.family);
  } else {
    take(connection);
  }
  listener.review();
}

// Why a new connection is refused, whatever its listener. Otherwise it is counted as one of the process.
std::optional<Refusal> ClientAcceptor::refusal_of(int fd) {
  if (context_.overload.level() >= MemoryLevel::kRefuse) [[unlikely]] {
    context_.overload.count(OverloadAction::kRefuseConnection);
    return Refusal::kOverload;
  }
  // Behind a proxy, the client's address is known later.
  if (!rate_limits_.empty() && context_.listener->config->proxy_protocol.accept == config::ProxyHeaderIn::kOff &&
      !admits_rate(PeerAddress::peer_of(fd))) {
    return Refusal::kRate;
  }
  if (!context_.global_connections.enter()) return Refusal::kGlobal;
  return std::nullopt;
}

void ClientAcceptor::take(ConnectionBalance::Accepted connection) {
  if (!context_.listener->limits->connections.enter()) {
    context_.global_connections.leave();
    return refuse(connection.fd, Refusal::kListener);
  }
  counters().admitted.add();
  if (balance_.hand_over(connection)) {
    counters().rebalanced.add();
  } else {
    begin(connection);
  }
}

void ClientAcceptor::begin(ConnectionBalance::Accepted connection) {
  factory_->start(*this, connection.fd, connection.family);
  // If accepting has stopped, the session has missed the pass through the others.
  if (!sessions_) return;
  if (draining_) sessions_->drain();
  if (successor_) move(*sessions_);
}

void ClientAcceptor::close_unused(int fd) {
  counters().ended[static_cast<size_t>(SessionEnd::kShutdown)].add();
  ::close(fd);
}

void ClientAcceptor::on_handed_over(ConnectionBalance::Accepted connection) {
  if (!shut_down_) return begin(connection);
  close_unused(connection.fd);
  context_.listener->limits->connections.leave();
  context_.global_connections.leave();
}

void ClientAcceptor::pass_on(Session& choice, ClientAcceptor& to, ConnectionBalance::Accepted connection) {
  unlink(choice);
  context_.listener->limits->choices.leave();
  to.counters().accepted.add();
  if (to.shut_down_) {
    context_.global_connections.leave();
    return to.close_unused(connection.fd);
  }
  if (context_.shared->mixed()) {
    const int unsent = to.context_.listener->config->http ? static_cast<int>(kHttpUnsentBytes) : 0;
    setsockopt(connection.fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &unsent, sizeof unsent);
  }
  to.take(connection);
}

bool ClientAcceptor::admits_rate(const PeerAddress& client) const {
  Source source;
  if (rate_limits_.empty() || !client.is_set() || !Source::from(client.data(), source)) return true;
  const uint64_t key = rate_key_of_connection(RateSecret::of_process(), source);
  return std::all_of(rate_limits_.begin(), rate_limits_.end(),
                     [&](const WorkerRateLimit& each) { return !each.check(key, context_.worker.now_us()).refused; });
}

bool ClientAcceptor::admits_handshake(const PeerAddress& client, std::string_view server_name) const {
  Source source;
  const bool known = client.is_set() && Source::from(client.data(), source);
  return std::all_of(handshake_limits_.begin(), handshake_limits_.end(), [&](const WorkerRateLimit& each) {
    const uint64_t key =
        rate_key_of_handshake(RateSecret::of_process(), each.limiter->key(), known ? &source : nullptr, server_name);
    return !each.check(key, context_.worker.now_us()).refused;
  });
}

// Accepting must not use up the descriptors that accepted connections need for their upstream side.
uint32_t ClientAcceptor::accepting() {
  const uint64_t active = context_.global_connections.active();
  if (active >= context_.descriptor_room) {
    if (!std::exchange(no_room_, true)) {
      counters().accept_pauses.add();
      log_pause(absl::StrCat(context_.descriptor_room, " connections are open, as many as file descriptors allow"));
    }
    return 0;
  }
  no_room_ = false;
  // One multishot accept could take the whole backlog at once; it counts twice, as a margin. The other sockets could do
  // the same before any of them is checked again. If that is too much, each may take an equal part of half the room
  // that is left.
  const uint64_t waiting = uint64_t{context_.listener->config->backlog} * 2 + context_.other_backlogs;
  if (active + waiting < context_.descriptor_room) return Listener::kAll;
  return static_cast<uint32_t>(std::max<uint64_t>((context_.descriptor_room - active) / 2 / context_.sockets, 1));
}

// A reset leaves no lingering socket on either side.
void ClientAcceptor::refuse(int fd, Refusal reason) {
  counters().refused[static_cast<size_t>(reason)].add();
  const linger reset{1, 0};
  setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
  ::close(fd);
}

void ClientAcceptor::on_accept_paused(Listener&, int error) {
  counters().accept_pauses.add();
  log_pause(std::strerror(error));
}

// Each connection that ends lets accepting go on for a moment, so it may pause many times a second.
void ClientAcceptor::log_pause(std::string_view why) {
  static thread_local LogLimit limit(1);
  if (!log_enabled(LogLevel::kWarning) || !log_admits(limit, worker().now_ms())) return;
  const std::string& name = listener().config->name;
  log_line(LogLevel::kWarning, absl::StrCat("listener \"", name, "\": accepting pauses: ", why, left_out_text(limit)),
           {.listener = name, .reason = why});
}

void ClientAcceptor::link(Session& session) {
  session.previous = nullptr;
  session.next = sessions_;
  if (sessions_) sessions_->previous = &session;
  sessions_ = &session;
  session_peak_ = std::max(session_peak_, ++session_count_);
  balance_.opened();
}

void ClientAcceptor::unlink(Session& session) {
  (session.previous ? session.previous->next : sessions_) = session.next;
  if (session.next) session.next->previous = session.previous;
  if (next_reviewed_ == &session) next_reviewed_ = session.next;
  if (next_visited_ == &session) next_visited_ = session.next;
  if (next_listed_ == &session) next_listed_ = session.next;
  --session_count_;
  balance_.closed();
}

Session* ClientAcceptor::next_listed() {
  return next_listed_ ? std::exchange(next_listed_, next_listed_->next) : nullptr;
}

void ClientAcceptor::joined(Session& session) { link(session); }

void ClientAcceptor::left(Session& session) {
  unlink(session);
  context_.listener->limits->connections.leave();
  context_.global_connections.leave();
  // Two descriptors are free now.
  for (auto& listener : listeners_) listener->resume();
  if (session_count_ < session_peak_ / 2 && session_peak_ >= kCrowd) trim_heap();
}

void ClientAcceptor::choice_left(Session& choice) {
  unlink(choice);
  context_.listener->limits->choices.leave();
  context_.global_connections.leave();
  for (auto& listener : listeners_) listener->resume();
}

void ClientAcceptor::moved(Session& session, ClientAcceptor& to) {
  SLUICE_DCHECK(to.context_.listener->limits == context_.listener->limits);
  unlink(session);
  to.link(session);
  if (to.draining_) session.drain();
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

void ClientAcceptor::stop_accepting(const SocketInodes& kept) {
  for (auto& listener : listeners_) {
    listener->stop(/*leave_backlog=*/leaves_accepting_ || kept.contains(socket_inode(listener->fd())));
  }
  balance_.leave();
  factory_->stop();
}

void ClientAcceptor::drain() { visit_all(/*with_moved=*/false); }

void ClientAcceptor::drain_all() { visit_all(/*with_moved=*/true); }

void ClientAcceptor::end_all() {
  ending_ = true;
  shut_down_ = true;
  visit_all(/*with_moved=*/true);
}

void ClientAcceptor::visit_all(bool with_moved) {
  draining_ = true;
  successor_ = nullptr;
  next_visited_ = sessions_;
  requests_to_visit_ = with_moved ? factory_->requests() : 0;
  worker().yielding_tasks().push(visit_task_);
}

void ClientAcceptor::hand_over(ClientAcceptor& successor, const SocketInodes& kept) {
  stop_accepting(kept);
  successor_ = &successor;
  next_visited_ = sessions_;
  worker().yielding_tasks().push(visit_task_);
}

void ClientAcceptor::visit_some() {
  int left = kVisitedSessions;
  const auto leave = [this](Session& session) { ending_ ? end(session) : session.drain(); };
  for (; left > 0 && next_visited_; --left) {
    Session& session = *std::exchange(next_visited_, next_visited_->next);
    successor_ ? move(session) : leave(session);
  }
  // The last request takes the place of one that ends, so from the last to the first none is passed over.
  for (; left > 0 && requests_to_visit_ > 0; --left) {
    requests_to_visit_ = std::min(requests_to_visit_, factory_->requests());
    if (requests_to_visit_ == 0) break;
    if (Session* const session = factory_->session_of(--requests_to_visit_)) leave(*session);
  }
  if (next_visited_ || requests_to_visit_ > 0) worker().yielding_tasks().push(visit_task_);
}

// ---- Moving to another process ----

void ClientAcceptor::begin_moving_out(Departures& departures, uint64_t drains_at_ms, size_t per_ms) {
  departures_ = &departures;
  moves_per_ms_ = per_ms;
  drains_at_ms_ = drains_at_ms;
  stays_counted_ = false;
  leaves_accepting_ = true;
  successor_ = nullptr;
  for (auto& listener : listeners_) listener->leave();
  next_visited_ = sessions_;
  move_out_some();
}

void ClientAcceptor::move_out_some() {
  if (worker().now_ms() >= drains_at_ms_ && !std::exchange(stays_counted_, true)) note_stays();
  for (size_t i = 0; i < moves_per_ms_ && next_visited_ && departures_->has_room(); ++i) {
    Session& session = *std::exchange(next_visited_, next_visited_->next);
    if (!session.move_out() && worker().now_ms() >= drains_at_ms_) session.drain();
  }
  const uint64_t pause_ms = next_visited_ ? 1 : kMoveOutPauseMs;
  if (!next_visited_) next_visited_ = sessions_;
  worker().timers().arm(move_timer_, worker().now_ms() + pause_ms);
}

void ClientAcceptor::count_stays(StayCounts& counts) const {
  for (const Session* session = sessions_; session; session = session->next) {
    ++counts[static_cast<size_t>(session->stay_reason())];
  }
}

void ClientAcceptor::note_stays() {
  StayCounts counts{};
  count_stays(counts);
  for (size_t i = 0; i < counts.size(); ++i) counters().stayed[i].add(counts[i]);
}

SourceLimit::Place ClientAcceptor::take_source_place(const Source& source) {
  SourceLimit& sources = context_.listener->limits->sources;
  return sources.enabled() ? sources.take_place(source) : nullptr;
}

bool ClientAcceptor::has_left() const {
  return std::all_of(listeners_.begin(), listeners_.end(),
                     [](const auto& listener) { return listener->left() || listener->stopped(); });
}

void ClientAcceptor::end_moving_out(bool accepts) {
  departures_ = nullptr;
  next_visited_ = nullptr;
  move_timer_.cancel();
  if (!accepts) return;
  leaves_accepting_ = false;
  for (auto& listener : listeners_) listener->reclaim();
}

void ClientAcceptor::admit_resumed() {
  admit_replacement();
  counters().resumed.add();
}

void ClientAcceptor::admit_replacement() {
  context_.global_connections.enter_beyond();
  context_.listener->limits->connections.enter_beyond();
}

void ClientAcceptor::resumed(Session& session) {
  if (draining_) session.drain();
}

bool ClientAcceptor::resume(MovingSession session, FindAcceptor find, bool stays) {
  if (!shut_down_ && factory_->resume(*this, session, find, stays)) return true;
  counters().ended[static_cast<size_t>(SessionEnd::kNotResumed)].add();
  return false;
}

void ClientAcceptor::set_others(uint64_t other_backlogs, uint32_t sockets) {
  context_.other_backlogs = other_backlogs;
  context_.sockets = sockets;
}

void ClientAcceptor::shut_down() {
  shut_down_ = true;
  for (Session* session = sessions_; session != nullptr;) end(*std::exchange(session, session->next));
}

void ClientAcceptor::end(Session& session) {
  const auto kind = static_cast<size_t>(session.kind());
  if (session.shut_down()) context_.resets->by_kind[kind].add();
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
  CostliestSessions costliest;
  const bool closes = context_.overload.excess_bytes() > 0;
  for (int i = 0; i < kReviewedSessions && next_reviewed_; ++i) {
    Session& session = *std::exchange(next_reviewed_, next_reviewed_->next);
    needs_another_round_ |= session.review_memory();
    if (closes) costliest.consider(session, worker().now_ms());
  }
  costliest.close(context_.overload.excess_bytes(), [this](size_t bytes) { context_.overload.note_closed(bytes); });
  if (next_reviewed_) return review_memory();
  const bool is_short =
      std::exchange(needs_another_round_, false) || worker().in_reserve() || context_.overload.reduces();
  if (sessions_ && is_short) return review_memory();
  source_memory_.reset();
}

}  // namespace sluice
