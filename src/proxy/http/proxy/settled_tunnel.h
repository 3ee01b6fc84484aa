#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "proxy/common/peer_address.h"
#include "proxy/http/proxy/movable_stream.h"
#include "proxy/http/proxy/request_log.h"
#include "proxy/l4/l4_session.h"
#include "proxy/metrics/http_counters.h"
#include "proxy/metrics/l4_counters.h"
#include "proxy/transport/transport.h"

namespace sluice {

class ClientAcceptor;
class RequestContext;
struct HttpListener;

/// A tunnel of HTTP/1.1 on both sides that was quiet for a while. It has no state of HTTP any more: it forwards bytes
/// like an L4Session, and keeps what will be counted and logged of its request in one allocation. To all who look on it
/// is still the request that it began as. It owns itself, as an L4Session does.
class SettledTunnel final : public L4Session {
 public:
  /// The endpoint's side of a tunnel that settles, and what its request has come to so far.
  struct Upstream {
    Transport& transport;
    uint32_t upstream;  ///< Index in ClientAcceptor::upstreams().
    uint32_t endpoint;
    uint64_t active_ms;  ///< When data last moved.
    const RequestLog& log;
    RequestOutcome outcome;
  };

  /// Takes both connections over, which are detached and have nothing queued. The request has begun on a listener that
  /// outlives it as `acceptor` does.
  static void begin(ClientAcceptor& acceptor, SettlingClient&& client, const RequestContext& request,
                    const Upstream& upstream);

  SessionKind kind() const override { return SessionKind::kTunnel; }
  PeerAddress peer() const override;

 private:
  struct Record;
  struct FreeRecord {
    void operator()(Record* record) const;
  };

  SettledTunnel(ClientAcceptor& acceptor, const RequestContext& request, const Upstream& upstream,
                const PeerAddress& peer);
  ~SettledTunnel() override;

  // L4Session
  void note_passed(bool from_client, size_t bytes, size_t waiting) override;
  bool client_is_stuck(uint64_t now_ms) override;
  SessionEnd note_end(SessionEnd end) override;

  HttpEnd http_end(SessionEnd end) const;
  SessionEnd counted_end(SessionEnd end) const;
  void count_lost(SessionEnd end) const;
  void write_log(HttpEnd end);

  const std::unique_ptr<Record, FreeRecord> record_;
};

}  // namespace sluice
