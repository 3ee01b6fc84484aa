#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "alts_like/alts_record_layer.h"
#include "buffer/buffer.h"

namespace grpc::gcp {
class HandshakerResult;
}

namespace sluice {

/// What one side of an ALTS handshake wants.
struct AltsOptions {
  /// An end of the connection, for the service to know; unset: not told.
  struct Endpoint {
    std::string ip;  ///< As a literal: 192.0.2.1, 2001:db8::1.
    uint16_t port = 0;
  };

  bool is_client = false;
  std::vector<std::string> application_protocols{"grpc"};
  std::vector<AltsProtocol> record_protocols{AltsProtocol::kAes128GcmRekey};
  /// Service accounts, of which the peer must be one. Empty: any. Only a client's are told to the service.
  std::vector<std::string> target_service_accounts;
  std::string target_name;  ///< A client's, for the service's check whether the server may have that name.
  Endpoint local, remote;
  size_t max_frame_bytes = AltsState::kMaxFrameBytes;  ///< That we can receive and would send.
};

/// What both sides have agreed on.
struct AltsResult {
  AltsResult() = default;
  AltsResult(AltsResult&&) = default;
  AltsResult& operator=(AltsResult&&) = default;
  ~AltsResult();  ///< Wipes the keys.

  AltsProtocol record_protocol = AltsProtocol::kAes128GcmRekey;
  std::vector<uint8_t> key_data;  ///< As many bytes as the protocol takes.
  std::string application_protocol;
  std::string peer_identity;   ///< Service account, or host name where it has no account.
  std::string local_identity;  ///< Likewise; empty if the service did not say.
  size_t max_frame_bytes = 0;  ///< That either side may send.
  Buffer leftover;             ///< What the peer has sent behind the handshake: the first records.
};

/// An ALTS handshake as a talk with Google's HandshakerService, which alone knows its messages: it is given the peer's
/// bytes and says what to send. Neither a socket nor gRPC: requests and responses are the bytes of their messages.
///
///     negotiation.receive(pool, std::move(bytes_of_peer));
///     if (auto request = negotiation.request()) ask(*request);
///     ...
///     status = negotiation.digest(response, out_frames);   // send out_frames, whatever the status
///
/// The service is believed as to who the peer is; all else that it says is checked, so that a broken one does no harm.
class AltsNegotiation {
 public:
  enum class Status : uint8_t { kUnderWay, kDone, kFailed };

  explicit AltsNegotiation(AltsOptions options);

  /// Takes what the peer has sent. Too much before the end is a failure.
  void receive(ChunkPool& pool, Buffer&& bytes);

  /// The next HandshakerReq, if one is due: a client's first one at once, others when the peer has sent something. One
  /// is under way at a time. `latency_ms`: since the peer was sent something; 0 where it was not.
  std::optional<std::string> request(uint32_t latency_ms = 0);
  /// Whether a response is due.
  bool waiting() const { return waiting_; }

  /// Takes a HandshakerResp, and appends what it has for the peer to `out_frames`, also when the status is kFailed.
  Status digest(std::string_view response, std::string& out_frames);

  Status status() const { return status_; }
  const std::string& error() const { return error_; }
  const AltsResult& result() const { return result_; }
  /// Once, when it is done; behind it the result is empty.
  AltsResult take_result();

  /// Of the peer's bytes in one request: as grpc-go reads them.
  static constexpr size_t kMaxInBytes = size_t{64} * 1024;
  /// That the peer may send while the service works: what a socket may still deliver after it was told to stop.
  static constexpr size_t kMaxPendingBytes = size_t{512} * 1024;
  /// Of one handshake: two or three are usual, more come when the peer's bytes drip.
  static constexpr uint32_t kMaxRequests = 256;
  /// That the service may have sent to the peer. Usual is less than one KiB.
  static constexpr size_t kMaxOutBytes = size_t{256} * 1024;
  /// Of a name in the result.
  static constexpr size_t kMaxNameBytes = 1024;

 private:
  Status fail(std::string error);
  Status finish(const grpc::gcp::HandshakerResult& result);

  AltsOptions options_;
  Buffer pending_;      // The peer's bytes that were not consumed.
  size_t offered_ = 0;  // Of them, in the request that is under way.
  size_t seen_ = 0;     // Of them, from earlier requests: no reason for a new one.
  size_t out_bytes_ = 0;
  uint32_t requests_ = 0;
  bool waiting_ = false;
  Status status_ = Status::kUnderWay;
  std::string error_;
  AltsResult result_;
};

}  // namespace sluice
