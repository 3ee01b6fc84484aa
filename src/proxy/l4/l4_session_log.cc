// The access log of an L4Session. A session of a listener without a log has no room for it.

#include <optional>
#include <string_view>

#include "proxy/l4/connection_log.h"
#include "proxy/l4/l4_session.h"
#include "proxy/listener/client_acceptor.h"

namespace sluice {

namespace {

// One allocation has both.
class LoggedL4Session final : public L4Session {
 public:
  LoggedL4Session(ClientAcceptor& acceptor, ListenerLog& to) : L4Session(acceptor, Kind::kLogged), log(to) {}

  ConnectionLog log;
};

}  // namespace

L4Session* L4Session::make(ClientAcceptor& acceptor, ListenerLog* log) {
  if (log) return new LoggedL4Session(acceptor, *log);
  return new L4Session(acceptor);
}

ConnectionLog* L4Session::log() { return kind_ == Kind::kLogged ? &static_cast<LoggedL4Session*>(this)->log : nullptr; }

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

}  // namespace sluice
