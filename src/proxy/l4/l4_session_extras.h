#pragma once

#include <optional>

#include "proxy/l4/connection_log.h"
#include "proxy/l4/l4_session.h"
#include "proxy/rate_limit/flow_pacer.h"
#include "sluice/chunk_pointer.h"

namespace sluice {

/// A session of a listener with an access log, limits of bandwidth, or both. The others have no room for them.
class L4SessionWithExtras final : public L4Session {
 public:
  L4SessionWithExtras(ClientAcceptor& acceptor, const L4Extras& extras)
      : L4Session(acceptor, Kind::kWithExtras), bandwidth(extras.bandwidth) {
    if (extras.log) log.emplace(*extras.log);
  }

  std::optional<ConnectionLog> log;
  const TcpBandwidth* const bandwidth;
  ChunkPointer<FlowPacers> pacers;  // Once its route is known.
};

}  // namespace sluice
