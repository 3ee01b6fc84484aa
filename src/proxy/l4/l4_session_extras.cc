// What only sessions of some listeners have: an access log, limits of bandwidth.

#include "proxy/l4/l4_session_extras.h"

#include <algorithm>
#include <optional>
#include <string_view>

#include "net/worker.h"
#include "proxy/l4/connection_log.h"
#include "proxy/l4/l4_session.h"
#include "proxy/l4/tcp_bandwidth.h"
#include "proxy/listener/client_acceptor.h"

namespace sluice {

L4Session* L4Session::make(ClientAcceptor& acceptor, const L4Extras& extras) {
  if (extras.log || extras.bandwidth) return new L4SessionWithExtras(acceptor, extras);
  return new L4Session(acceptor);
}

L4SessionWithExtras* L4Session::with_extras() {
  return kind_ == Kind::kWithExtras ? static_cast<L4SessionWithExtras*>(this) : nullptr;
}

bool L4Session::take_note(Transport& from, size_t bytes) {
  if (ConnectionLog* const line = log()) {
    is_client(from) ? line->count_in(bytes) : line->count_out(bytes);
    line->note_pinned(client_.queued() + upstream_.queued());
  }
  FlowPacer* const pacer = pacer_of(from);
  if (!pacer) return false;
  pacer->charge(bytes);
  return pacer->waits();
}

// ---- The access log ----

ConnectionLog* L4Session::log() {
  L4SessionWithExtras* const extras = with_extras();
  return extras && extras->log ? &*extras->log : nullptr;
}

// The address may come from a PROXY header, so it is known when the setup has ended.
void L4Session::note_client() {
  if (ConnectionLog* const line = log()) line->note_client(client_source());
}

void L4Session::note_route(const ClientHello* hello, const std::optional<TcpTarget>& target) {
  ConnectionLog* const line = log();
  if (!line) return;
  if (const Agreement* const agreed = setup_->client.agreed()) {
    line->note_agreement(*agreed);
  } else if (hello) {
    line->note_server_name(hello->server_name());
  }
  if (target) line->note_route(target->route);
}

// The end is counted at the same place, so each connection has one line.
void L4Session::log_end(std::string_view reason) {
  ConnectionLog* const line = log();
  if (!line) return;
  std::string_view upstream, endpoint;
  if (line->has_route() || endpoint_counted_) upstream = upstream_state().config().name;
  if (line->attempts() > 0 || endpoint_counted_) endpoint = upstream_state().slots().text(endpoint_index_);
  line->write(acceptor_.listener().config->name, upstream, endpoint, reason);
}

// ---- Limits of bandwidth ----

FlowPacers* L4Session::pacers() {
  L4SessionWithExtras* const extras = with_extras();
  return extras ? extras->pacers.get() : nullptr;
}

FlowPacer* L4Session::pacer_of(const Transport& from) {
  FlowPacers* const both = pacers();
  if (!both) return nullptr;
  return is_client(from) ? &both->upload : &both->download;
}

void L4Session::make_pacers(uint32_t route) {
  L4SessionWithExtras* const extras = with_extras();
  if (!extras || !extras->bandwidth) return;
  const ClientIp client(client_source());
  const RequestAttributes facts{.client = &client, .agreed = setup_->client.agreed()};
  Worker& worker = acceptor_.worker();
  extras->pacers = make_in_chunk<FlowPacers>(
      worker.pool(), worker, extras->bandwidth->upload(facts, route),
      [](void* self) { static_cast<L4Session*>(self)->turn_of(/*client=*/true); },
      extras->bandwidth->download(facts, route),
      [](void* self) { static_cast<L4Session*>(self)->turn_of(/*client=*/false); }, this);
  if (extras->pacers->upload.is_slow()) client_.receive_little();
  if (extras->pacers->download.is_slow()) upstream_.receive_little();
}

bool L4Session::waits_for_turn() {
  const FlowPacers* const both = pacers();
  return both && both->either_waits();
}

// Reads, unless its turn has to come first.
void L4Session::read_on(Transport& from) {
  const FlowPacer* const pacer = pacer_of(from);
  if (!pacer || !pacer->waits()) from.start_reading();
}

void L4Session::turn_of(bool client) {
  if (state_ != State::kForwarding) return;
  note_activity();
  Transport& from = client ? client_ : upstream_;
  if (state_ == State::kForwarding && other(from).queued() < high_mark()) from.start_reading();
}

}  // namespace sluice
