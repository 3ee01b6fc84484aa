#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "alts_like/handshake.h"
#include "alts_like/handshaker_negotiation.h"
#include "net/yielding_task.h"
#include "proxy/alts/handshaker_call.h"
#include "proxy/alts/handshaker_service.h"

namespace sluice {

/// An ALTS handshake by Google's HandshakerService. `step` is queued as slow work when the service has responded or
/// failed. The owner then calls advance(), with the bytes received since, if any.
class AltsHandshake final : public Handshake {
 public:
  /// `service` and `step` must outlive the handshake.
  AltsHandshake(HandshakerService& service, AltsOptions options, YieldingTask& step);

  Status advance(ChunkPool& pool, Buffer&& received, Buffer& out) override;
  const std::string& error() const override { return error_; }
  Agreement agreement() const override;
  std::unique_ptr<RecordLayer> finish() override;

  /// False while a request to the service is in flight: see AltsNegotiation::kMaxPendingBytes.
  bool wants_bytes() const override { return !negotiation_.waiting(); }
  std::string awaited() const override;

  // After kDone and before finish():

  const std::string& peer_identity() const { return negotiation_.result().peer_identity; }
  const std::string& local_identity() const { return negotiation_.result().local_identity; }
  const std::string& application_protocol() const { return negotiation_.result().application_protocol; }
  std::string_view record_protocol() const { return alts_protocol_name(negotiation_.result().record_protocol); }

 private:
  void take_response(ChunkPool& pool, Buffer& out);
  std::optional<std::string> next_request();
  Status fail(std::string error);

  HandshakerService& service_;
  const bool is_client_;
  AltsNegotiation negotiation_;
  HandshakerCall call_;
  std::optional<uint64_t> sent_ms_;  // When bytes were last sent to the peer.
  std::string error_;
};

}  // namespace sluice
