#include "proxy/http/proxy/settled_tunnel.h"

#include <algorithm>
#include <array>
#include <new>
#include <span>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "alts_like/record_state.h"
#include "net/worker.h"
#include "proxy/config/model/units.h"
#include "proxy/http/message/client_ip.h"
#include "proxy/http/proxy/agreement_state.h"
#include "proxy/http/proxy/http_listener.h"
#include "proxy/http/proxy/request_context.h"
#include "proxy/listener/client_acceptor.h"
#include "proxy/router/canonical_path.h"
#include "proxy/transport/handshakes.h"

namespace sluice {

namespace {

// The texts of a record: each behind its size, of two bytes. They come from one head, so none is longer.
void write_text(StateWriter& out, std::string_view text) {
  out.u16(static_cast<uint16_t>(text.size()));
  out.bytes({reinterpret_cast<const uint8_t*>(text.data()), text.size()});
}

std::string_view read_text(StateReader& in) {
  const std::span<const uint8_t> bytes = in.bytes(in.u16());
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// What the access log may show of the request.
void write_request(const RequestContext& request, const RequestLog& log, StateWriter& out) {
  const RequestAttributes attributes = request.attributes();
  const Fields& fields = *attributes.fields;
  write_text(out,
             {reinterpret_cast<const char*>(attributes.client->bytes().data()), attributes.client->bytes().size()});
  out.u16(attributes.client_port);
  for (const std::string_view text :
       {request.original_path(), attributes.authority, attributes.method, attributes.scheme, attributes.request_id,
        attributes.trace_id, log.kept(fields)}) {
    write_text(out, text);
  }
  write_agreement(out, attributes.agreed);
  const bool all = request.listener().log->uses_facts();
  for (const Fields::Field field : fields) {
    if (!all && field.name != "user-agent") continue;
    write_text(out, field.name);
    write_text(out, field.value);
  }
}

}  // namespace

// The texts of write_request() follow it. They are empty without an access log.
struct SettledTunnel::Record {
  Record(const RequestContext& request, const Upstream& upstream, const PeerAddress& peer, size_t bytes)
      : listener(request.listener()),
        route(request.target()),
        request_bytes(upstream.outcome.request_bytes),
        response_bytes(upstream.outcome.response_bytes),
        log(upstream.log),
        attempts(upstream.outcome.attempts),
        text_bytes(static_cast<uint32_t>(bytes)),
        status(upstream.outcome.status),
        client_port(peer.port()),
        client(peer) {}

  std::span<const uint8_t> texts() const { return {reinterpret_cast<const uint8_t*>(this + 1), text_bytes}; }

  HttpListener& listener;
  const HttpTarget* const route;
  uint64_t request_bytes, response_bytes;
  RequestLog log;
  const uint32_t attempts;
  const uint32_t text_bytes;
  uint32_t acknowledged = 0;  // Bytes that the client had acknowledged at the last check, modulo 2^32.
  uint32_t progress_ms = 0;   // When that had changed, or nothing was queued, modulo 2^32.
  const uint16_t status;
  const uint16_t client_port;
  const ClientIp client;  // Who has connected, as it was known at the beginning.
};

void SettledTunnel::FreeRecord::operator()(Record* record) const {
  record->~Record();
  ::operator delete(record);
}

void SettledTunnel::begin(ClientAcceptor& acceptor, SettlingClient&& client, const RequestContext& request,
                          const Upstream& upstream) {
  acceptor.admit_replacement();
  auto* const tunnel = new SettledTunnel(acceptor, request, upstream, client.peer);
  tunnel->begin_with({.client = client.transport,
                      .upstream = upstream.transport,
                      .upstream_index = upstream.upstream,
                      .endpoint_index = upstream.endpoint,
                      .started_ms = client.started_ms,
                      .active_ms = upstream.active_ms,
                      .source_place = std::move(client.source_place)});
}

SettledTunnel::SettledTunnel(ClientAcceptor& acceptor, const RequestContext& request, const Upstream& upstream,
                             const PeerAddress& peer)
    : L4Session(acceptor, Kind::kTunnel), record_([&] {
        SecretBytes texts;
        StateWriter out(texts);
        if (request.listener().log) write_request(request, upstream.log, out);
        void* const memory = ::operator new(sizeof(Record) + texts.size());
        auto* const record = new (memory) Record(request, upstream, peer, texts.size());
        std::ranges::copy(texts, reinterpret_cast<uint8_t*>(record + 1));
        return record;
      }()) {
  ++record_->listener.settled_tunnels;
}

SettledTunnel::~SettledTunnel() { --record_->listener.settled_tunnels; }

PeerAddress SettledTunnel::peer() const {
  const PeerAddress known = record_->client.address(record_->client_port);
  return known.is_set() ? known : L4Session::peer();
}

// ---- While it lasts ----

void SettledTunnel::note_passed(bool from_client, size_t bytes, size_t waiting) {
  (from_client ? record_->request_bytes : record_->response_bytes) += bytes;
  if (record_->log.begun()) record_->log.note_pinned(waiting);
  // The time begins to count at the first byte that waits.
  if (!from_client && client().queued() == bytes)
    record_->progress_ms = static_cast<uint32_t>(acceptor().worker().now_ms());
}

bool SettledTunnel::client_is_stuck(uint64_t now_ms) {
  const uint64_t limit_ms = config::milliseconds(record_->listener.config->send_timeout);
  const auto now = static_cast<uint32_t>(now_ms);
  const auto acknowledged = static_cast<uint32_t>(client().socket().acknowledged());
  if (std::exchange(record_->acknowledged, acknowledged) != acknowledged) record_->progress_ms = now;
  return limit_ms > 0 && now - record_->progress_ms >= limit_ms;
}

// ---- The end ----

HttpEnd SettledTunnel::http_end(SessionEnd end) const {
  switch (end) {
    case SessionEnd::kFinished:
      return HttpEnd::kOk;
    case SessionEnd::kMoved:
      return HttpEnd::kMoved;
    case SessionEnd::kIdleTimeout:
      return HttpEnd::kIdleTimeout;
    case SessionEnd::kShutdown:
      return HttpEnd::kShutdown;
    case SessionEnd::kOverload:
      return HttpEnd::kOverload;
    case SessionEnd::kUpstreamError:
      return HttpEnd::kUpstreamReset;
    case SessionEnd::kStuck:
      return acceptor().worker().should_shed_load() ? HttpEnd::kStuck : HttpEnd::kClientReset;
    default:
      return HttpEnd::kClientReset;
  }
}

// The connection of a request ends in order, for the listener, when its request is over.
SessionEnd SettledTunnel::counted_end(SessionEnd end) const {
  const bool by_request = end == SessionEnd::kUpstreamError || end == SessionEnd::kIdleTimeout ||
                          (end == SessionEnd::kClientError && client().ended());
  return by_request ? SessionEnd::kFinished : end;
}

// A tunnel ends with its connections, so a connection that fails is lost within a message.
void SettledTunnel::count_lost(SessionEnd end) const {
  switch (end) {
    case SessionEnd::kFinished:
    case SessionEnd::kMoved:
    case SessionEnd::kIdleTimeout:
      return;
    case SessionEnd::kUpstreamError:
      ++worker_upstream().http_counters->codecs.http1.lost;
      return;
    default:
      ++record_->listener.counters.codecs.http1.lost;
  }
}

SessionEnd SettledTunnel::note_end(SessionEnd end) {
  const HttpEnd why = http_end(end);
  HttpCounters& counters = record_->listener.counters;
  counters.ended[static_cast<size_t>(why)].add();
  counters.statuses[record_->status / 100].add();
  counters.request_bytes.add(record_->request_bytes);
  counters.response_bytes.add(record_->response_bytes);
  count_lost(end);
  if (record_->listener.log) write_log(why);
  const SessionEnd counted = counted_end(end);
  if (counted != end) {
    // As the codec would have said.
    const std::string_view error =
        end == SessionEnd::kClientError ? "the connection ended within a body" : "the stream was reset";
    std::array<char, ClientIp::kTextBytes> room;
    log_client(acceptor().worker(), *record_->listener.listener, record_->client.text(room),
               absl::StrCat("HTTP/1.1", " with it failed: ", error));
  }
  return counted;
}

void SettledTunnel::write_log(HttpEnd end) {
  StateReader in(record_->texts());
  const std::string_view client_bytes = read_text(in);
  const ClientIp client(std::span(reinterpret_cast<const uint8_t*>(client_bytes.data()), client_bytes.size()));
  const uint16_t client_port = in.u16();
  const std::string_view target = read_text(in), authority = read_text(in), method = read_text(in);
  const std::string_view scheme = read_text(in), request_id = read_text(in), trace_id = read_text(in);
  const std::string_view kept = read_text(in);
  const std::unique_ptr<Agreement> agreed = read_agreement(in);
  Fields fields;
  while (in.ok() && !in.done()) {
    const std::string_view name = read_text(in), value = read_text(in);
    (void)fields.add(acceptor().worker().pool(), name, value);  // They were in one head before.
  }
  static thread_local std::array<char, Fields::kMaxBytes> scratch;
  const size_t path_bytes = std::min(target.find('?'), target.size());
  const RequestAttributes attributes{.host = canonical_host(authority, scratch),
                                     .path = target.substr(0, path_bytes),
                                     .query = target.substr(std::min(path_bytes + 1, target.size())),
                                     .authority = authority,
                                     .method = method,
                                     .scheme = scheme,
                                     .fields = &fields,
                                     .client = &client,
                                     .agreed = agreed.get(),
                                     .listener = record_->listener.listener->name,
                                     .request_id = request_id,
                                     .trace_id = trace_id,
                                     .client_port = client_port};
  record_->log.write(record_->listener,
                     {.attributes = attributes, .target = target, .kept = kept, .route = record_->route, .end = end},
                     {.status = record_->status,
                      .request_bytes = record_->request_bytes,
                      .response_bytes = record_->response_bytes,
                      .upstream = upstream_state().config().name,
                      .endpoint = upstream_state().slots().text(endpoint_index()),
                      .attempts = record_->attempts});
}

}  // namespace sluice
