#pragma once

#include <cstdint>
#include <memory>

#include "alts_like/record_layer.h"
#include "proxy/transport/transport.h"

namespace sluice {

/// TLS or ALTS on one side of a session: the handshake, then the records.
struct TlsSide {
  std::unique_ptr<Handshaking>
      handshake;  ///< An endpoint's stays a while, for the session tickets that come behind it.
  std::unique_ptr<RecordLayer> records;
};

/// What a session has only when TLS or ALTS is terminated or spoken on one of its sides.
struct SessionTls {
  TlsSide client;
  TlsSide upstream;
  uint32_t upstream_generation = 0;  ///< Of the context that the upstream's side was made with.
};

}  // namespace sluice
