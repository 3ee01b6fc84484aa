#pragma once

#include <memory>

#include "alts_like/record_layer.h"
#include "alts_like/tls_handshake.h"

namespace sluice {

/// TLS on one side of a session: the handshake, then the records.
struct TlsSide {
  std::unique_ptr<TlsHandshake> handshake;
  std::unique_ptr<RecordLayer> records;
};

/// What a session has only when TLS is terminated or spoken on one of its sides.
struct SessionTls {
  TlsSide client;
  TlsSide upstream;
};

}  // namespace sluice
