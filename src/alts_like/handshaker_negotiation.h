#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "alts_like/alts_record_layer.h"
#include "sluice/buffer.h"

namespace grpc::gcp {
class HandshakerResult;
}

namespace sluice {

/// The parameters of one side of an ALTS handshake.
struct AltsOptions {
  /// An address of the connection, for the service's information. If `ip` is empty, it is not sent.
  struct Endpoint {
    std::string ip;  ///< A literal: 192.0.2.1, 2001:db8::1.
    uint16_t port = 0;
  };

  bool is_client = false;
  std::vector<std::string> application_protocols{"grpc"};
  std::vector<AltsProtocol> record_protocols{AltsProtocol::kAes128GcmRekey};
  /// The peer must have one of these service accounts. Empty: any account. Only a client sends them to the service.
  std::vector<std::string> target_service_accounts;
  std::string target_name;  ///< Client only: the server's name, which the service checks.
  Endpoint local, remote;
  size_t max_frame_bytes = AltsState::kMaxFrameBytes;  ///< The largest frame that we can receive and would send.
};

/// The result of an ALTS handshake.
struct AltsResult {
  AltsResult() = default;
  AltsResult(AltsResult&&) = default;
  AltsResult& operator=(AltsResult&&) = default;
  ~AltsResult();  ///< Wipes the keys.

  AltsProtocol record_protocol = AltsProtocol::kAes128GcmRekey;
  std::vector<uint8_t> key_data;  ///< AltsKeys::secret_bytes(record_protocol) bytes.
  std::string application_protocol;
  std::string peer_identity;   ///< The service account, or the host name of a peer without an account.
  std::string local_identity;  ///< Likewise for our side; empty if the service did not send it.
  size_t max_frame_bytes = 0;  ///< The largest frame that either side may send.
  Buffer leftover;             ///< The peer's bytes that follow the handshake: the first records.
};

/// An ALTS handshake as a dialog with Google's HandshakerService, which alone understands the handshake messages: it
/// takes the peer's bytes and returns the bytes to send. This class has neither a socket nor gRPC; its requests and
/// responses are serialized messages.
///
///     negotiation.receive(pool, std::move(bytes_of_peer));
///     if (auto request = negotiation.request()) send_to_service(*request);
///     ...
///     status = negotiation.digest(response, out_frames);   // send out_frames, whatever the status
///
/// The service is trusted with the peer's identity. Everything else in its responses is checked, so that a broken
/// service does no harm.
class AltsNegotiation {
 public:
  enum class Status : uint8_t { kInProgress, kDone, kFailed };

  explicit AltsNegotiation(AltsOptions options);

  /// Takes the peer's bytes. More than kMaxPendingBytes before the end of the handshake are a failure.
  void receive(ChunkPool& pool, Buffer&& bytes);

  /// The next HandshakerReq, if one is due: a client's first request at once, others when the peer has sent bytes. Only
  /// one request is in flight at a time. `latency_ms`: the time since bytes were last sent to the peer, or 0 if none
  /// were.
  std::optional<std::string> request(uint32_t latency_ms = 0);
  /// Whether a request is in flight.
  bool waiting() const { return waiting_; }

  /// Takes a HandshakerResp and appends its bytes for the peer to `out_frames`. They may be there even when the status
  /// is kFailed.
  Status digest(std::string_view response, std::string& out_frames);

  Status status() const { return status_; }
  const std::string& error() const { return error_; }
  const AltsResult& result() const { return result_; }
  /// Moves the result out. Call once, after kDone; result() is empty afterwards.
  AltsResult take_result();

  /// Bound on the peer's bytes in one request, the size that grpc-go reads.
  static constexpr size_t kMaxInBytes = size_t{64} * 1024;
  /// Bound on the peer's bytes while a request is in flight: a socket may still deliver this much after
  /// stop_reading().
  static constexpr size_t kMaxPendingBytes = size_t{512} * 1024;
  /// Bound on the requests of one handshake. Two or three are usual; more are needed when the peer's bytes drip in.
  static constexpr uint32_t kMaxRequests = 256;
  /// Bound on the bytes that the service sends to the peer in one handshake. Usually they are less than 1 KiB.
  static constexpr size_t kMaxOutBytes = size_t{256} * 1024;
  /// Bound on a name in the result.
  static constexpr size_t kMaxNameBytes = 1024;

 private:
  Status fail(std::string error);
  Status finish(const grpc::gcp::HandshakerResult& result);

  AltsOptions options_;
  Buffer pending_;      // The peer's bytes that the service has not consumed.
  size_t offered_ = 0;  // The bytes of pending_ in the request in flight.
  size_t seen_ = 0;     // The bytes of pending_ in earlier requests. They are no reason for a new one.
  size_t out_bytes_ = 0;
  uint32_t requests_ = 0;
  bool waiting_ = false;
  Status status_ = Status::kInProgress;
  std::string error_;
  AltsResult result_;
};

}  // namespace sluice
